// Commands to a live run, as values and as JSON text (docs/formats/commands.md).
//
// A viewer sends the text to the hub of the run. The supervisor parses and executes it
// (actors/supervisor/commander.cpp) and records it in the ledger if `is_kept`. Parsing throws
// input_error for an unknown command or invalid arguments.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::runtime {

namespace commands {

/// Answers with the state of the run.
struct status {};
/// Starts no further step until `resume`. A save or an evaluation that is due still runs.
struct pause {};
struct resume {};
/// Saves a checkpoint of the newest step.
struct save {};
/// Evaluates the validation set after the newest step.
struct evaluate {};
/// Sets the learning rate of the next step. The schedule continues from there, multiplied by the
/// factor that gives this rate.
struct learning_rate {
  double rate = 0;  ///< above 0
};
/// Sets the minimum severity shown on the console of the run.
struct log_level {
  std::string level;  ///< "debug", "info", "warning" or "error"
};
/// Evaluates the validation set every `steps` steps.
struct eval_interval {
  std::uint64_t steps = 0;  ///< 0: never
};
/// Saves a checkpoint every `steps` steps.
struct save_interval {
  std::uint64_t steps = 0;  ///< 0: only at the end of the run
};
/// Replaces the process of a worker as soon as another process has a copy of its state. Needs
/// several processes and recovery.
struct replace {
  std::string worker;  ///< process, replica or stage: "node-1", "replica:0", "stage:0.1"
};
/// Ends the run after that step, with a final save.
struct stop_after {
  std::uint64_t step = 0;
};
/// Ends the run after the newest step, with a final save.
struct stop {};
/// Reports the pipeline timeline of each of the next `steps` steps.
struct trace {
  std::uint64_t steps = 0;  ///< 1 to 1,000
};
/// Reports the gradient norm of each matching parameter in the next `steps` steps.
struct norms {
  std::string of;           ///< prefix of the parameter names, such as "decoder.layers.3."
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

/// The names of all commands, in the order of `run_command`: "status", "pause", ...
const std::vector<std::string_view>& command_names();
std::string_view name_of(const run_command& x);

/// The JSON text, such as {"command":"learning_rate","rate":0.0001}.
std::string text_of(const run_command& x);
/// Parses JSON text. Throws input_error; its text lists the command's arguments, or all commands.
run_command read_run_command(std::string_view text);

/// Parses the words of a command line: the name, in which '-' may replace '_', and the arguments.
/// Example: {"learning-rate", "0.0001"}. Throws as above.
run_command read_run_command(const std::vector<std::string>& words);

/// True if the ledger records the command, for a successor of the supervisor.
bool is_kept(const run_command& x);

}  // namespace troupe::runtime
