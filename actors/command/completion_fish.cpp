#include "actors/command/completion.hpp"

#include <fmt/format.h>

namespace troupe::command {
namespace {

constexpr const char* fish_head
    = R"(# Completion of troupe for fish, made by `troupe completion fish`.

# True if the words before the cursor begin with these commands; with "only", if they are equal.
function __troupe_in
    set -l words (commandline -opc)[2..]
    set -l wanted (string split -n ' ' -- $argv[1])
    set -l n (count $wanted)
    test (count $words) -ge $n; or return 1
    for i in (seq $n)
        test "$words[$i]" = "$wanted[$i]"; or return 1
    end
    test "$argv[2]" != only; or test (count $words) -eq $n
end

complete -c troupe -f
)";

/// Quotes the text for fish, where only \' and \\ are escapes in single quotes.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text)
    out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

std::string words_after(const flag_description& x) {
  if (!x.choices.empty())
    return fmt::format(" -x -a {}", quoted(fmt::format("{}", fmt::join(x.choices, " "))));
  switch (kind_of(x.type)) {
    case word_kind::file:
      return " -r -F";
    case word_kind::folder:
      return " -x -a '(__fish_complete_directories)'";
    case word_kind::any:
      break;
  }
  return " -x";
}

void describe(const command_description& x, std::size_t program, std::string& out) {
  const auto path = x.path.size() > program ? x.path.substr(program + 1) : "";
  const auto at = [&](const char* only) {
    return fmt::format("complete -c troupe -n {}",
                       quoted(fmt::format("__troupe_in \"{}\"{}", path, only)));
  };
  for (const auto& below : x.commands)
    out += fmt::format("{} -a {} -d {}\n", at(" only"), below.name(), quoted(below.about));
  for (const auto& group : x.groups)
    for (const auto& flag : group.flags) {
      if (flag.name.empty())
        out += at("") + " -F\n";
      else
        out += fmt::format("{} -l {}{} -d {}\n",
                           at(""),
                           flag.name.substr(2),
                           flag.most > 0 ? words_after(flag) : "",
                           quoted(first_sentence(flag.help)));
    }
  for (const auto& below : x.commands)
    describe(below, program, out);
}

}  // namespace

std::string fish_completion(const command_description& program) {
  std::string out = fish_head;
  describe(program, program.path.size(), out);
  return out + "complete -c troupe -s h -l help -d 'Prints the help'\n";
}

}  // namespace troupe::command
