// `troupe ctl`: a command to a live run.

#include "actors/command/commands.hpp"
#include "actors/command/monitored_run.hpp"
#include "actors/command/print.hpp"
#include "actors/command/signals.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/trainer/run_command.hpp"
#include "runtime/watch/send_command.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe::command {
namespace {

struct ctl_words {
  std::shared_ptr<monitored_run> run;
  std::vector<std::string> words;
};

int send(const ctl_words& given) {
  const auto command = runtime::text_of(runtime::read_run_command(given.words));
  const auto hub = find_commanded_run(*given.run);
  return interruptible([&](const runtime::cancel_token& stop) {
    try {
      const auto goes_on = [&] { return !stop.is_cancelled(); };
      print_page(runtime::send_command(hub, command, goes_on) + "\n");
      return 0;
    } catch (const runtime::cancelled&) {
      runtime::log_warning("the run has not answered yet; it may still take the command {}",
                           command);
      throw;
    }
  });
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
  line.note(
      "A command takes effect between two steps, and this program waits for the answer. The ledger "
      "keeps the command with its step, so that a successor, and a step that runs again, has the "
      "same bits.");
  line.note(
      "Exit code: 0 when the run has taken the command; 2 if it refuses, with its reason; 128 + "
      "the signal that ended the wait. After a signal the run may still take the command.");
  line.runs([given] { return send(*given); });
}

}  // namespace troupe::command
