// `troupe ctl`: sends a command to a live run.

#include "actors/command/commands.hpp"
#include "actors/command/monitored_run.hpp"
#include "actors/command/print.hpp"
#include "actors/command/signals.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/state/run_command.hpp"
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
    } catch (const runtime::io_error& failure) {
      throw runtime::io_error("{}; if the run has taken the command, `troupe ledger` shows it",
                              failure.what());
    }
  });
}

}  // namespace

void add_ctl(command_line& program) {
  auto& line = program.command(
      "ctl", "sends a command to a live run: pause, resume, save, learning-rate and others.");
  const auto given = std::make_shared<ctl_words>();
  line.words("COMMAND [VALUE...]",
             "The command and its values, if it takes any. See below.",
             given->words);
  given->run = declare_commanded_run(line);
  line.note(
      "Control: status prints the state of the run and its newest step. pause begins no further "
      "step; resume continues. stop ends the run after the newest step, stop-after STEP after that "
      "step; both end with the last save.");
  line.note(
      "Checkpoints and evaluation: save writes a checkpoint of the newest step. evaluate runs the "
      "validation set after the newest step. save-interval N and eval-interval N set the interval "
      "in steps. With 0 the run saves only at its end, or never evaluates.");
  line.note(
      "Settings: learning-rate R sets the rate of the next step, above 0. Later steps follow the "
      "schedule, multiplied by the same factor. log-level LEVEL sets the minimum severity on the "
      "console of the supervisor's process: debug, info, warning or error.");
  line.note(
      "Workers: replace WORKER replaces a process, such as node-1, or the process of a replica or "
      "a stage, such as replica:0 or stage:0.1, once its states are kept elsewhere. It needs "
      "several processes and recovery.");
  line.note(
      "Reports: trace N reports the timelines of the next N steps; it needs several pipeline "
      "stages. norms NAME N reports the gradient norm of each parameter with a name that begins "
      "with NAME, for the next N steps. N is from 1 to 1000.");
  line.note(
      "Prints the run's answer. status answers at once; other commands take effect between two "
      "steps. The ledger records all commands but status, so a successor continues under them, "
      "and a repeated step has the same bits.");
  line.note(
      "Exit code 0: the run has taken the command. 2: it refuses the command, or there is no run. "
      "128 + N: signal N ended the wait; the run may still take the command.");
  line.runs([given] { return send(*given); });
}

}  // namespace troupe::command
