// `troupe ctl`: a command to a live run.

#include "actors/command/commands.hpp"
#include "actors/command/monitored_run.hpp"
#include "actors/command/print.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/http/client.hpp"
#include "runtime/trainer/run_command.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe::command {
namespace {

struct ctl_words {
  std::shared_ptr<monitored_run> run;
  std::vector<std::string> words;
};

/// The sentence in an answer: {"message": ...}, or {"error": {"message": ...}}.
std::string sentence_in(const std::string& body) {
  const auto all = runtime::json_value_or_discarded(body);
  const auto* from = &all;
  if (all.is_object() && all.contains("error"))
    from = &all["error"];
  if (from->is_object() && from->contains("message") && (*from)["message"].is_string())
    return (*from)["message"].get<std::string>();
  return "";
}

int send_command(const ctl_words& given) {
  const auto what = runtime::read_run_command(given.words);
  runtime::http::client client(find_commanded_run(*given.run));
  const auto answer = client.post("/api/command", runtime::text_of(what));
  const auto sentence = sentence_in(answer.body);
  constexpr int done = 200;
  if (answer.status != done || sentence.empty())
    throw runtime::input_error(
        "{}",
        sentence.empty() ? fmt::format(
            "the answer is not that of a run (status {}); is the address right?", answer.status)
                         : sentence);
  print_page(sentence + "\n");
  return 0;
}

}  // namespace

void add_ctl(command_line& program) {
  auto& line = program.command(
      "ctl", "sends a command to a live run: pause, resume, save, learning-rate and others.");
  const auto given = std::make_shared<ctl_words>();
  line.words("COMMAND [VALUE]", "The command, and its value if it takes one.", given->words);
  given->run = declare_commanded_run(line);
  line.note(
      "Commands: status; pause and resume; save and evaluate, after the newest step; learning-rate "
      "R, the rate of the next step, after which the schedule continues with the same factor; "
      "eval-interval N and save-interval N, in steps (0: off); log-level LEVEL; drain WORKER and "
      "replace WORKER, which give the ranks of a process a new one, soon or now; trace N, "
      "timelines of the next steps; norms NAME N, gradient norms of the parameters whose names "
      "begin with NAME; stop-after STEP; stop.");
  log - level LEVEL; drain WORKER and "
      "replace WORKER, which give the ranks of a process a new one, soon or now; trace N, "
      "timelines "
      "of the next steps; stop-after STEP; stop.");
  line.note(
      "A command takes effect between two steps. The ledger keeps it with its step, so that a "
      "successor, and a step that runs again, has the same bits.");
  line.note("Exit code: 0 when the run has taken the command; 2 if it refuses, with its reason.");
  line.runs([given] { return send_command(*given); });
}

}  // namespace troupe::command
