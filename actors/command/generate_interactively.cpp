#include "actors/command/generate.hpp"
#include "actors/command/setting_names.hpp"
#include "runtime/core/terminal_text.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <unistd.h>
#include <utility>

namespace troupe::command {
namespace {

constexpr const char* help
    = "Ctrl-C ends an answer; Ctrl-D or :quit ends the conversation.\n"
      "  :tokens N        largest number of tokens to add\n"
      "  :temperature X   below 1 more predictable, above 1 more varied\n"
      "  :seed N          equal seeds give equal texts\n"
      "  :help            prints this help\n";

volatile std::sig_atomic_t interrupted = 0;

void interrupt(int) {
  if (interrupted != 0)
    ::_exit(128 + SIGINT);  // a second Ctrl-C before the first was handled
  interrupted = 1;
}

/// During its lifetime Ctrl-C only sets `interrupted` and interrupts a read.
class interrupts {
 public:
  interrupts() {
    struct sigaction action = {};
    action.sa_handler = interrupt;
    ::sigaction(SIGINT, &action, &before_);
  }
  ~interrupts() { ::sigaction(SIGINT, &before_, nullptr); }
  interrupts(const interrupts&) = delete;
  interrupts& operator=(const interrupts&) = delete;

 private:
  struct sigaction before_ = {};
};

/// Executes a command such as ":seed 3". Throws usage_error for unknown commands and wrong values,
/// and then changes nothing.
void obey(const std::string& line, generate_flags& of, const std::string& opening) {
  auto flags = of;
  const auto space = line.find(' ');
  const auto name = line.substr(0, space);
  const auto word = space == std::string::npos ? std::string() : line.substr(space + 1);
  if (name == ":help")
    std::fprintf(stderr, "%s%s", opening.c_str(), help);
  else if (name == ":tokens")
    whole(flags.tokens, 1)(name, word);
  else if (name == ":temperature")
    flags.temperature = parse_temperature(name, word);
  else if (name == ":seed")
    whole(flags.seed)(name, word);
  else
    throw usage_error("unknown command {}; :help lists the commands", name);
  beams_of(flags);
  of = std::move(flags);
}

/// Shortens a text that fills the learned positions of the model: keeps its last half, to leave
/// room for an answer.
std::string fitting(const std::string& context, const runtime::loaded_model& model) {
  const auto ids = model.text().encode(context, runtime::special_tokens::recognised);
  const auto most = std::size_t(model.whole().model().positions());
  if (most == 0 || ids.size() < most)
    return context;
  return model.text().decode(std::span(ids).last(most / 2));
}

void ask(bool terminal) {
  if (terminal)
    std::fputs("> ", stderr);
}

}  // namespace

void answer_lines(generate_flags& flags, const std::string& opening, const line_answer& answer) {
  const bool terminal = ::isatty(STDIN_FILENO) != 0;
  if (terminal)
    std::fprintf(stderr, "%s%s", opening.c_str(), help);
  const interrupts watching;
  std::string line;
  for (ask(terminal); std::getline(std::cin, line) && line != ":quit"; ask(terminal)) {
    interrupted = 0;
    try {
      if (line.starts_with(":"))
        obey(line, flags, opening);
      else
        answer(line, [] { return interrupted == 0; });
    } catch (const runtime::error& failure) {  // the next line may succeed
      std::fprintf(
          stderr, "troupe: %s\n", runtime::message_text(with_flags(failure.what())).c_str());
    }
    interrupted = 0;
  }
  if (terminal)
    std::fputs("\n", stderr);
}

int generate_interactively(generate_flags flags) {
  const auto model = load(flags.model, runtime::model_use::generates);
  std::string context;
  answer_lines(
      flags,
      model->before()
          ? "Write a text and press Enter: the model reads it and answers.\n"
          : "Write a text and press Enter: the model continues it. An empty line continues the "
            "last text.\n",
      [&](const std::string& line, const std::function<bool()>& wanted) {
        if (!line.empty())
          context = line;
        context = fitting(context, *model);
        const auto answer = stream_text(*model, flags, context, wanted);
        if (!model->before())
          context += answer.text;
        show("\n");
        std::fputs(end_note(answer.end, model->whole().model()).c_str(), stderr);
      });
  return 0;
}

}  // namespace troupe::command
