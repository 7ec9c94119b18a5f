#include "actors/command/completion.hpp"

#include <fmt/format.h>

namespace troupe::command {
namespace {

constexpr const char* bash_head
    = R"(# Completion of troupe for bash, made by `troupe completion bash`.

# Sets what may follow a command ($1), or one of its flags ($2).
_troupe_describe() {
  commands= flags= choices= kind=any most=0
  case "$1" in
)";

constexpr const char* tail = R"(
_troupe() {
  local current="${COMP_WORDS[COMP_CWORD]}" path=troupe flag="" left=0 i word
  local commands flags choices kind most
  _troupe_describe "$path" ""
  # Commands come first.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word="${COMP_WORDS[i]}"
    [[ $word != -* && " $commands " == *" $word "* ]] || break
    path="$path $word"
    _troupe_describe "$path" ""
  done
  # Then flags: left counts the values that may still follow the last one.
  for (( ; i < COMP_CWORD; ++i)); do
    word="${COMP_WORDS[i]}"
    if [[ $word == --* ]]; then
      flag="$word"
      _troupe_describe "$path" "$flag"
      left=$most
    elif [[ $word != = ]]; then
      ((left > 0 && left--))
    fi
  done
  ((left > 0)) || flag=""
  _troupe_describe "$path" "$flag"
  [[ $current == = ]] && current=""
  COMPREPLY=()
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
  elif [[ -n $choices || -n $flag && $kind == any ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$current")
  elif [[ -n $commands ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
  elif [[ $kind == folder ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -d -- "$current")
  elif [[ $kind == file ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
  fi
}

complete -F _troupe troupe
)";

std::string_view name_of(word_kind x) {
  return x == word_kind::file ? "file" : x == word_kind::folder ? "folder" : "any";
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

/// Writes a case for the command, and one for each of its flags that takes values.
void describe_for_bash(const command_description& x, std::string& out) {
  std::vector<std::string> commands, flags = {"--help"};
  for (const auto& below : x.commands)
    commands.push_back(below.name());
  std::string kind = "any", cases;
  for (const auto& group : x.groups)
    for (const auto& flag : group.flags) {
      if (flag.name.empty())
        kind = kind_of(flag.type) == word_kind::folder ? "folder" : "file";
      else
        flags.push_back(flag.name);
      if (!flag.name.empty() && flag.most > 0)
        cases += fmt::format("        {}) choices={} kind={} most={} ;;\n",
                             flag.name,
                             shell_quoted(joined(flag.choices)),
                             name_of(kind_of(flag.type)),
                             flag.most);
    }
  out += fmt::format(
      "    {})\n      commands={} flags={} kind={}\n      case \"$2\" in\n{}      esac ;;\n",
      shell_quoted(x.path),
      shell_quoted(joined(commands)),
      shell_quoted(joined(flags)),
      kind,
      cases);
  for (const auto& below : x.commands)
    describe_for_bash(below, out);
}

}  // namespace

std::string bash_completion(const command_description& program) {
  std::string out = bash_head;
  describe_for_bash(program, out);
  return out + "  esac\n}\n" + tail;
}

}  // namespace troupe::command
