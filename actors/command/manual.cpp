// `troupe manual`: manual pages, one per command, made from the description of the commands.

#include "actors/command/commands.hpp"
#include "actors/command/print.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

namespace troupe::command {
namespace {

/// Escapes text for roff: no request is read from it, and dashes stay dashes.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '\n')
      out += "\n.br\n";
    else
      out += c;
  }
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string dashed(std::string path) {
  std::replace(path.begin(), path.end(), ' ', '-');
  return path;
}

std::string upper(std::string text) {
  for (auto& c : text)
    c = char(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string entry(const std::string& words, const std::string& text) {
  return ".TP\n" + words + "\n" + roff(text) + "\n";
}

/// "\fB\-\-num\-layers\fR \fIN\fR"
std::string flag_words(const flag_description& x) {
  std::string out;
  if (!x.name.empty())
    out += "\\fB" + roff(x.name) + "\\fR";
  if (!x.type.empty())
    out += (out.empty() ? "" : " ") + ("\\fI" + roff(x.type)) + "\\fR";
  return out;
}

std::string synopsis(const command_description& x) {
  auto out = "\\fB" + roff(x.path) + "\\fR";
  if (x.needs_command())
    return out + " \\fIcommand\\fR";
  if (!x.commands.empty())
    out += " [\\fIcommand\\fR]";
  for (const auto& group : x.groups)
    for (const auto& flag : group.flags)
      if (flag.name.empty())
        out += " \\fI" + roff(flag.type) + "\\fR";
  return out + " [\\fIflag\\fR ...]";
}

std::string options(const command_description& x) {
  std::string out = ".SH OPTIONS\n";
  const auto help
      = entry("\\fB\\-h\\fR, \\fB\\-\\-help\\fR",
              x.needs_command() ? "Prints the help and exits."
                                : "Prints the help, or with -h only the flags, and exits.");
  for (const auto& group : x.groups) {
    if (group.flags.empty())
      continue;
    if (!group.title.empty())
      out += ".SS " + roff(group.title) + "\n";
    for (const auto& flag : group.flags)
      out += entry(flag_words(flag), full_help(flag));
    if (group.title.empty())
      out += help;
  }
  if (x.groups.front().flags.empty())
    out += ".SS Help\n" + help;
  return out;
}

/// Leaves out the hundreds of refused flags; `troupe train gpt --help-megatron` lists them.
std::string accepted_flags(const command_description& x) {
  std::string list;
  for (const auto& flag : x.others)
    if (flag.use == flag_use::accepted)
      list += entry(flag_words(flag), flag.help);
  return list.empty() ? ""
                      : ".SS Accepted, without any effect here\n"
                        "" + list;
}

std::string see_also(const command_description& x, const command_description* above) {
  std::string out;
  const auto add = [&out](const std::string& path) {
    out += (out.empty() ? "" : ",\n") + (".BR " + roff(dashed(path))) + " (1)";
  };
  if (above != nullptr)
    add(above->path);
  for (const auto& below : x.commands)
    add(below.path);
  return out.empty() ? "" : ".SH SEE ALSO\n" + out + "\n";
}

std::string page(const command_description& x,
                 const command_description* above,
                 const std::string& version) {
  auto out
      = fmt::format(".TH {} 1 \"\" \"{}\" \"Troupe\"\n.nh\n.ad l\n.SH NAME\n{} \\- {}\n",
                    roff(upper(dashed(x.path))),
                    roff(version),
                    roff(dashed(x.path)),
                    roff(x.about.ends_with('.') ? x.about.substr(0, x.about.size() - 1) : x.about));
  out += ".SH SYNOPSIS\n" + synopsis(x) + "\n";
  auto paragraphs = x.beginnings;
  paragraphs.insert(paragraphs.end(), x.notes.begin(), x.notes.end());
  if (!paragraphs.empty()) {
    out += ".SH DESCRIPTION\n";
    for (const auto& paragraph : paragraphs)
      out += (&paragraph == &paragraphs.front() ? "" : ".PP\n") + roff(paragraph) + "\n";
  }
  if (!x.commands.empty()) {
    out += ".SH COMMANDS\n";
    for (const auto& below : x.commands)
      out += entry("\\fB" + roff(below.name()) + "\\fR", below.about);
  }
  out += options(x) + accepted_flags(x);
  out += ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : exit_codes())
    out += entry(fmt::format("\\fB{}\\fR", code), meaning);
  return out + see_also(x, above);
}

void add_pages(const command_description& x,
               const command_description* above,
               const std::string& version,
               std::map<std::string, std::string>& out) {
  out[dashed(x.path) + ".1"] = page(x, above, version);
  for (const auto& below : x.commands)
    add_pages(below, &x, version, out);
}

void add_markdown(const command_description& x, std::string& out) {
  out += fmt::format("\n## {}\n\n`{}` {}\n", x.path, x.path, x.about);
  for (const auto& group : x.groups) {
    if (group.flags.empty())
      continue;
    out += group.title.empty() ? "\n" : fmt::format("\n**{}**\n\n", group.title);
    for (const auto& flag : group.flags)
      out += fmt::format("* `{}`: {}\n", words_of(flag), full_help(flag));
  }
  for (const auto& note : x.notes)
    out += "\n" + note + "\n";
  for (const auto& below : x.commands)
    add_markdown(below, out);
}

/// Pages for man(1) by file name, e.g. "troupe-train-gpt.1", in roff with the macros of man(7).
/// `version` is in their foot. They contain no time, so the same program writes the same pages.
std::map<std::string, std::string> manual_pages(const command_description& program,
                                                const std::string& version) {
  std::map<std::string, std::string> out;
  add_pages(program, nullptr, version, out);
  return out;
}

std::string markdown_manual(const command_description& program) {
  std::string out = "# Commands and flags of " + program.path + "\n";
  add_markdown(program, out);
  return out;
}

struct manual_flags {
  std::filesystem::path output;
  std::string format = "man";
};

int write_manual(const command_description& program, const manual_flags& flags) {
  if (flags.format == "markdown") {
    const auto text = markdown_manual(program);
    if (flags.output.empty())
      print_data(text);
    else
      runtime::write_text(flags.output, text);
    return 0;
  }
  if (flags.output.empty())
    throw usage_error("--output DIR is missing: give the folder of the pages, e.g. share/man/man1");
  const auto pages = manual_pages(program, "troupe " TROUPE_VERSION);
  runtime::make_folder(flags.output);
  for (const auto& [name, text] : pages)
    runtime::write_text(flags.output / name, text);
  print_page("wrote {} pages to '{}'; read one: man -l '{}'\n",
             pages.size(),
             flags.output.string(),
             (flags.output / "troupe-train-gpt.1").string());
  return 0;
}

}  // namespace

void add_manual(command_line& program) {
  auto& line = program.command("manual", "writes manual pages, one per command.");
  const auto flags = std::make_shared<manual_flags>();
  line.value("--output",
             "DIR",
             "Folder for troupe.1, troupe-train-gpt.1 and so on. With --format markdown: a file, "
             "or standard output if left out.",
             text(flags->output));
  line.value({.name = "--format",
              .type = "FORMAT",
              .help = "Output format. man: a page per command. markdown: one text."},
             one_of(flags->format, {"man", "markdown"}));
  line.note(
      "man finds pages in share/man/man1 beside the program's bin folder if that is in $PATH. "
      "Elsewhere: man -l DIR/troupe-train-gpt.1");
  line.runs([flags, &program] { return write_manual(program.describe(), *flags); });
}

}  // namespace troupe::command
