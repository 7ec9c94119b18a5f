#include "actors/command/setting_names.hpp"

#include "actors/command/commands.hpp"

namespace troupe::command {
namespace {

using names = std::map<std::string, std::string, std::less<>>;

void add_flags(const command_description& from, names& to) {
  const auto add = [&to](const std::vector<flag_description>& flags) {
    for (const auto& flag : flags)
      if (!flag.field.empty())
        to.emplace(flag.field, flag.name);
  };
  for (const auto& group : from.groups)
    add(group.flags);
  add(from.faults);
  for (const auto& below : from.commands)
    add_flags(below, to);
}

}  // namespace

const names& flags_of_settings() {
  static const names all = [] {
    command_line program("troupe", "");
    add_commands(program);
    names out;
    add_flags(program.describe(), out);
    return out;
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
