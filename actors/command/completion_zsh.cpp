#include "actors/command/completion.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::command {
namespace {

std::string function_of(const command_description& x) {
  auto out = "_" + x.path;
  std::replace(out.begin(), out.end(), ' ', '_');
  return out;
}

/// Escapes brackets and colons, which are special in zsh's descriptions.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '[' || c == ']' || c == ':' || c == '\\' ? std::string("\\") + c
                                                         : std::string(1, c);
  return out;
}

std::string action_of(const flag_description& x) {
  if (!x.choices.empty())
    return fmt::format("({})", fmt::join(x.choices, " "));
  switch (kind_of(x.type)) {
    case word_kind::file:
      return "_files";
    case word_kind::folder:
      return "_files -/";
    case word_kind::any:
      break;
  }
  return " ";
}

std::string spec_of(const flag_description& x) {
  const auto message = escaped(x.type);
  if (x.name.empty())
    return fmt::format(
        "*:{}:{}", message, kind_of(x.type) == word_kind::folder ? "_files -/" : "_files");
  auto out = fmt::format("*{}[{}]", x.name, escaped(first_sentence(x.help)));
  if (x.most > x.least)
    return out + fmt::format(":*--*:{}:{}", message, action_of(x));
  for (int i = 0; i < x.most; ++i)
    out += fmt::format(":{}:{}", message, action_of(x));
  return out;
}

void describe_for_zsh(const command_description& x, std::string& out) {
  for (const auto& below : x.commands)
    describe_for_zsh(below, out);
  out += function_of(x) + "() {\n";
  if (!x.commands.empty()) {
    out += "  local -a below=(\n";
    for (const auto& below : x.commands)
      out += "    " + shell_quoted(below.name() + ":" + escaped(below.about)) + "\n";
    out += fmt::format(
        "  )\n  if ((CURRENT == 2)){}; then\n    _describe command below\n    return\n  fi\n",
        x.needs_command() ? "" : " && [[ $words[2] != -* ]]");
    out += "  case $words[2] in\n";
    for (const auto& below : x.commands)
      out += fmt::format(
          "    {}) shift words; ((CURRENT--)); {}; return ;;\n", below.name(), function_of(below));
    out += "  esac\n";
  }
  if (!x.needs_command()) {
    out += "  _arguments -S \\\n";
    for (const auto& group : x.groups)
      for (const auto& flag : group.flags)
        out += "    " + shell_quoted(spec_of(flag)) + " \\\n";
    out += "    '(-h --help)'{-h,--help}'[Prints the help]'\n";
  }
  out += "}\n\n";
}

}  // namespace

std::string zsh_completion(const command_description& program) {
  std::string out = "#compdef troupe\n# Made by `troupe completion zsh`.\n\n";
  describe_for_zsh(program, out);
  // zsh runs a file of $fpath as the body of the completion function; a sourced file registers it.
  return out
         + "if [[ $funcstack[1] == _troupe ]]; then\n  _troupe \"$@\"\nelse\n  compdef _troupe "
           "troupe\nfi\n";
}

}  // namespace troupe::command
