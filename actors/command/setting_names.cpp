#include "actors/command/setting_names.hpp"

#include "actors/command/commands.hpp"
#include "runtime/core/error.hpp"

namespace troupe::command {
namespace {

void add_flags(const command_description& from, setting_names& to) {
  const bool trains = from.path.starts_with("troupe train ");
  const auto add = [&](const std::vector<flag_description>& flags) {
    for (const auto& flag : flags)
      if (!flag.field.empty()) {
        const auto& known = to.emplace(flag.field, flag.name).first->second;
        runtime::ensure(!trains || known == flag.name,
                        "SETTING-5: a setting has one flag in all families");
      }
  };
  for (const auto& group : from.groups)
    add(group.flags);
  add(from.faults);
  for (const auto& below : from.commands)
    add_flags(below, to);
}

}  // namespace

setting_names flags_in(const command_description& program) {
  setting_names out;
  add_flags(program, out);
  return out;
}

const setting_names& flags_of_settings() {
  static const auto all = [] {
    command_line program("troupe", "");
    add_commands(program);
    return flags_in(program.describe());
  }();
  return all;
}

std::string with_flags(std::string_view text) {
  std::string out;
  for (;;) {
    const auto begin = text.find('`');
    const auto end = begin == text.npos ? text.npos : text.find('`', begin + 1);
    if (end == text.npos)
      return out.append(text);
    const auto& all = flags_of_settings();
    const auto found = all.find(text.substr(begin + 1, end - begin - 1));
    out.append(text.substr(0, begin));
    if (found != all.end()) {
      out += found->second;
      text.remove_prefix(end + 1);
    } else {  // the next backtick may open a setting
      out += text.substr(begin, end - begin);
      text.remove_prefix(end);
    }
  }
}

}  // namespace troupe::command
