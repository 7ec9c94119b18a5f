#include "actors/command/monitor_script.hpp"

#include "actors/command/monitored_run.hpp"
#include "actors/command/print.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/log.hpp"
#include "runtime/file/file.hpp"
#include "runtime/script/monitor_script.hpp"
#include "runtime/state/run_command.hpp"
#include "runtime/telemetry/run_log.hpp"
#include "runtime/watch/new_steps.hpp"
#include "runtime/watch/record_text.hpp"
#include "runtime/watch/send_command.hpp"
#include "runtime/watch/webhook.hpp"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace troupe::command {
namespace {

using nlohmann::json;

void print_alarm(const std::string& text) {
  print_page("alarm: " + text + "\n");
  if (std::fflush(stdout) != 0)  // a closed pipe, because SIGPIPE is ignored
    throw runtime::io_error("cannot print an alarm to standard output: {}",
                            runtime::system_message(errno));
}

/// Returns a failed request to the script, and logs a warning.
runtime::action_answer tried_request(const std::function<std::string()>& request) {
  try {
    return {true, request()};
  } catch (const runtime::error& failure) {
    runtime::log_warning("{}", failure.what());
    return {false, failure.what()};
  }
}

/// Sends commands with the control token. Empty if this host has no folder of the run.
std::function<runtime::action_answer(const std::string&)> commander_of(
    const runtime::followed_run& run) {
  if (!run.folder)
    return {};
  return [run](const std::string& text) {
    const auto what = runtime::read_run_command(text);  // an invalid command ends the script
    return tried_request([&] {
      auto to = run.at;
      to.token = runtime::control_token_of(run);
      return runtime::send_command(to, runtime::text_of(what));
    });
  };
}

runtime::monitor_actions actions_for(const runtime::followed_run& run) {
  return {.alarm = print_alarm,
          .command = commander_of(run),
          .post = [](const std::string& url, const std::string& text) {
            return tried_request([&] {
              runtime::post_webhook(url, text);
              return std::string("posted");
            });
          }};
}

/// Passes each record to the script, and each step once.
class scripted_listener final : public runtime::run_listener {
 public:
  scripted_listener(const std::filesystem::path& file, const runtime::followed_run& run)
      : script_(file.string(), runtime::read_text(file), actions_for(run)) {}

  void begin(std::string_view run) override {
    steps_.begin(run);
    past_ = true;
  }
  void take(std::string_view record) override {
    const auto kind = runtime::text_member(runtime::shallow_value(record), "kind");
    if (kind == "step")
      if (const auto step = runtime::read_step_record(record);
          !step || !steps_.is_new(step->iteration))
        return;
    if (kind == "end")
      knows_end_ = true;
    script_.take(record, past_);
  }
  void connection(const std::string& state) override {
    past_ = past_ && !state.empty();  // the first connected state follows the old records
    if (!state.empty() && std::exchange(told_, state) != state)
      runtime::log_warning("{}", state);
  }

  /// Passes an `end` record if the hub sent none: the run died, or its hub ended first.
  void end(const runtime::follow_end& x) {
    if (std::exchange(knows_end_, true))
      return;
    json record{{"kind", "end"}, {"exit_code", nullptr}, {"reason", text_of(x)}};
    if (x.how == runtime::follow_outcome::ended) {
      record["exit_code"] = x.end.exit_code;
      record["reason"] = x.end.reason;
    }
    script_.take(runtime::json_text_replacing(record));
  }

 private:
  runtime::monitor_script script_;
  runtime::new_steps steps_;
  std::string told_;
  bool past_ = true;
  bool knows_end_ = false;
};

}  // namespace

int run_monitor_script(const runtime::followed_run& run, const std::filesystem::path& file) {
  scripted_listener listener(file, run);
  const auto wait_until_killed = [](std::chrono::milliseconds time) {
    std::this_thread::sleep_for(time);
    return true;
  };
  runtime::follower follower(run, listener, wait_until_killed, limits_for(run));
  const auto end = follower.follow();
  listener.end(end);
  if (end.how != runtime::follow_outcome::ended)
    runtime::log_warning("{}", text_of(end));
  return 0;
}

}  // namespace troupe::command
