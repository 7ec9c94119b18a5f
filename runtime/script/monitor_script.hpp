// Lua scripts that watch a run, for `troupe monitor`. They run in the sandbox of schedule scripts,
// with the same limits for each call.
//
// A script defines at least one of these functions. The argument is a table with the fields of the
// record (docs/formats/telemetry.md):
//
//   function on_step(step)            step.iteration, step.lm_loss, step.loss (several), ...
//   function on_validation(x)         x.iteration, x.validation_loss or x.test_loss
//   function on_event(event)          event.event, event.who, event.why, ...
//   function on_end(x)                x.exit_code (nil: the run died), x.reason
//
// Each run begins with its latest old records. Their field `past` is true, so that a script does
// not pause a run because of them.
//
// Its variables keep their values between calls. A script may call:
//
//   alarm(text)                       shows an alarm to the user
//   command{"pause"}                  sends a command with its arguments:
//   command{"learning_rate", rate = 1e-4}
//   post(url, table)                  posts the table as JSON
//
// `command` and `post` return the text of the answer. If they fail, they return nil and the reason.

#pragma once

#include "runtime/script/schedule_script.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::runtime {

struct action_answer {
  bool done = false;
  std::string text = {};  ///< the answer, or the reason of the failure
};

/// The functions that a script can call. If one throws input_error, the script fails; the error
/// names the line of the call.
struct monitor_actions {
  std::function<void(const std::string& text)> alarm;
  /// Sends a command, given as JSON text. Null: the viewer has no control token.
  std::function<action_answer(const std::string& command)> command;
  std::function<action_answer(const std::string& url, const std::string& json)> post;
};

/// Used by one thread.
class monitor_script {
 public:
  /// Runs the script `text` once. `file`: its name in messages. Throws input_error with file, line
  /// and reason.
  monitor_script(const std::string& file,
                 const std::string& text,
                 monitor_actions actions,
                 const script_limits& limits = {});
  ~monitor_script();
  monitor_script(const monitor_script&) = delete;
  monitor_script& operator=(const monitor_script&) = delete;

  /// Calls the script's function for the kind of this record, if it has one. Ignores text that is
  /// not a record. `past`: the record is older than the connection. Throws input_error with file,
  /// line and reason.
  void take(std::string_view record, bool past = false);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace troupe::runtime
