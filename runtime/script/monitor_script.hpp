// Lua scripts that watch a run, for `troupe monitor`. They run in the sandbox of schedule scripts,
// with its bounds for each call.
//
// A script defines at least one of these functions. Each gets a table with the fields of the record
// (docs/formats/telemetry.md):
//
//   function on_step(step)            step.iteration, step.lm_loss, ...
//   function on_validation(x)         x.iteration, x.validation_loss or x.test_loss
//   function on_event(event)          event.event, event.who, event.why, ...
//   function on_end(x)                x.exit_code (nil: the run died), x.reason
//
// Variables of a script keep their values between calls. It may call:
//
//   alarm(text)                       tells people
//   command{"pause"}                  sends a command with its arguments:
//   command{"learning_rate", rate = 1e-4}
//   post(url, table)                  posts the table as JSON
//
// command and post return a text, or nil and the reason.

#pragma once

#include "runtime/script/schedule_script.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::runtime {

struct action_answer {
  bool done = false;
  std::string text = {};  ///< the answer, or why it is not done
};

/// What a script can do. An input_error ends the script, with the line of its call.
struct monitor_actions {
  std::function<void(const std::string& text)> alarm;
  /// Gets the JSON text of a command. Null: there is no control token.
  std::function<action_answer(const std::string& command)> command;
  std::function<action_answer(const std::string& url, const std::string& json)> post;
};

/// One thread.
class monitor_script {
 public:
  /// `file`: name in messages. Runs `text` once. Throws input_error with file, line and reason.
  monitor_script(const std::string& file,
                 const std::string& text,
                 monitor_actions actions,
                 const script_limits& limits = {});
  ~monitor_script();
  monitor_script(const monitor_script&) = delete;
  monitor_script& operator=(const monitor_script&) = delete;

  /// Calls the function for a record's kind, if the script has it. A text that is no record is
  /// ignored. Throws input_error with file, line and reason.
  void take(std::string_view record);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace troupe::runtime
