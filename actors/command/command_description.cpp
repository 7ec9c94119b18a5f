#include "actors/command/command_description.hpp"

#include "actors/command/help_text.hpp"

#include <utility>

namespace troupe::command {

word_kind kind_of(const std::string& type) {
  if (type.starts_with("DIR"))
    return word_kind::folder;
  for (const auto* file : {"FILE", "PREFIX", "LOG", "NAME|FILE"})
    if (type.starts_with(file))
      return word_kind::file;
  return word_kind::any;
}

std::string words_of(const flag_description& x) {
  return x.name.empty() || x.type.empty() ? x.name + x.type : x.name + " " + x.type;
}

std::string full_help(const flag_description& x) {
  auto out = x.help;
  const auto add
      = [&out](const std::string& sentence) { out += (out.empty() ? "" : " ") + sentence + "."; };
  if (const auto range = told_shortly(x.range); !range.empty())
    add("Range: " + range + (x.unit.empty() ? "" : " " + x.unit));
  if (!x.default_value.empty())
    add("Default: " + x.default_value);
  return out;
}

std::string usage_of(const command_description& x) {
  if (x.needs_command())
    return x.path + " COMMAND ...";
  auto out = x.path + (x.commands.empty() ? "" : " [COMMAND]");
  std::string last;  // words after --, another command
  for (const auto& group : x.groups)
    for (const auto& flag : group.flags)
      if (flag.name.empty())
        (flag.type.starts_with("-- ") ? last : out) += " " + flag.type;
  return out + " [FLAG ...]" + last;
}

std::string help_page(const command_description& x) {
  std::vector<help_section> sections;
  for (const auto& group : x.groups) {
    auto& section = sections.emplace_back(help_section{group.title, {}});
    for (const auto& flag : group.flags)
      section.entries.push_back({words_of(flag), full_help(flag)});
  }
  for (const auto& below : x.commands)
    sections.front().entries.push_back({below.name(), below.about});
  sections.front().entries.push_back({"-h, --help",
                                      x.needs_command()
                                          ? "Prints this and exits."
                                          : "Prints this, or with -h the flags alone, and exits."});
  return format_help(x.path, x.about, sections, x.notes, usage_of(x), x.beginnings);
}

std::string faults_help_page(const command_description& x) {
  std::vector<help_entry> entries;
  for (const auto& flag : x.faults)
    entries.push_back({words_of(flag), full_help(flag)});
  return format_help(
      x.path,
      "flags that inject faults into a run, to try how it detects and survives them.",
      {{"Faults", std::move(entries)}},
      {},
      {});
}

std::string short_help_page(const command_description& x) {
  if (x.needs_command())
    return help_page(x);
  auto out = format_help(x.path, x.about, {}, {}, usage_of(x));
  for (const auto& group : x.groups) {
    std::vector<std::string> words;
    if (&group == &x.groups.front())
      for (const auto& below : x.commands)
        words.push_back(below.name());
    for (const auto& flag : group.flags)
      words.push_back(words_of(flag));
    if (!words.empty())
      out += "\n" + (group.title.empty() ? "" : wrapped(group.title, 0) + "\n")
             + format_list(words);
  }
  return out + "\n" + wrapped("`" + x.path + " --help` explains them.", 0) + "\n";
}

}  // namespace troupe::command
