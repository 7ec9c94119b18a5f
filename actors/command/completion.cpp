#include "actors/command/completion.hpp"

#include "actors/command/commands.hpp"
#include "actors/command/print.hpp"

#include <memory>

namespace troupe::command {

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text)
    out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string first_sentence(const std::string& help) {
  for (auto dot = help.find(". "); dot != std::string::npos; dot = help.find(". ", dot + 1))
    if (dot < 3 || help.substr(dot - 3, 3) != "e.g")
      return help.substr(0, dot);
  return help.ends_with('.') ? help.substr(0, help.size() - 1) : help;
}

void add_completion(command_line& program) {
  auto& group = program.command("completion", "prints a completion script for a shell.");
  const auto add = [&](const char* shell, const char* note, auto* script) {
    group
        .command(shell,
                 fmt::format("prints the completion script for {}.", shell),
                 [&program, script] {
                   print_data(script(program.describe()));
                   return 0;
                 })
        .note(note);
  };
  add("bash",
      "For this shell: source <(troupe completion bash). For all shells: troupe completion bash > "
      "~/.local/share/bash-completion/completions/troupe",
      bash_completion);
  add("zsh",
      "For all shells: troupe completion zsh > DIR/_troupe, where DIR is one of $fpath; then run "
      "compinit. For this shell, after compinit: source <(troupe completion zsh).",
      zsh_completion);
  add("fish",
      "For all shells: troupe completion fish > ~/.config/fish/completions/troupe.fish. For this "
      "shell: troupe completion fish | source",
      fish_completion);
}

}  // namespace troupe::command
