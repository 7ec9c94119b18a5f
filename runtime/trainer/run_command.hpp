// Commands to a live run: docs/formats/commands.md. Values and their text; the supervisor carries
// them out (actors/supervisor/control.cpp), and the ledger keeps them.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::runtime {

namespace commands {

/// Answers with the state of the run; not kept.
struct status {};
/// Begins no step until `resume`. A save or a validation that is due still runs.
struct pause {};
struct resume {};
/// Saves a checkpoint after the newest step.
struct save {};
/// Evaluates the validation set after the newest step.
struct evaluate {};
/// Sets the learning rate of the next step. Later steps keep their schedule, multiplied by the same
/// factor.
struct learning_rate {
  double rate = 0;  ///< above 0
};
/// Minimum severity on the console of the run.
struct log_level {
  std::string level;  ///< "debug", "info", "warning" or "error"
};
struct eval_interval {
  std::uint64_t steps = 0;  ///< 0: never
};
struct save_interval {
  std::uint64_t steps = 0;  ///< 0: only at the end
};
/// Replaces the process of a worker when its states are kept elsewhere.
struct replace {
  std::string worker;  ///< "node-1", or a member of that process: "stage:0.1"
};
/// Ends the run, with its last save, after that step.
struct stop_after {
  std::uint64_t step = 0;
};
/// Ends it after the newest step.
struct stop {};
/// Reports the timeline of each of the next steps.
struct trace {
  std::uint64_t steps = 0;  ///< 1 to 1,000
};
/// Reports the gradient norm of each parameter in the next steps.
struct norms {
  std::string of;           ///< beginning of the parameters' names: "decoder.layers.3."
  std::uint64_t steps = 0;  ///< 1 to 1,000
};

}  // namespace commands

using run_command = std::variant<commands::status,
                                 commands::pause,
                                 commands::resume,
                                 commands::save,
                                 commands::evaluate,
                                 commands::learning_rate,
                                 commands::log_level,
                                 commands::eval_interval,
                                 commands::save_interval,
                                 commands::replace,
                                 commands::stop_after,
                                 commands::stop,
                                 commands::trace,
                                 commands::norms>;

/// "pause", "learning_rate", ...: all of them, in order.
const std::vector<std::string_view>& command_names();
std::string_view name_of(const run_command& x);

/// {"command":"learning_rate","rate":0.0001}
std::string text_of(const run_command& x);
/// Throws input_error with the command's arguments, or the list of commands.
run_command read_run_command(std::string_view text);

/// The command of typed words: its name, also with '-' for '_', and its argument if it takes one:
/// {"learning-rate", "0.0001"}. Throws as above.
run_command read_run_command(const std::vector<std::string>& words);

/// True if a successor of the supervisor, or a run that resumes, must know the command.
bool is_kept(const run_command& x);

}  // namespace troupe::runtime
