#include "actors/command/monitor_export.hpp"

#include "actors/command/monitored_run.hpp"
#include "actors/command/print.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/file/file.hpp"
#include "runtime/state/run_command.hpp"
#include "runtime/watch/chrome_trace.hpp"
#include "runtime/watch/new_steps.hpp"
#include "runtime/watch/otlp.hpp"
#include "runtime/watch/send_command.hpp"
#include "runtime/watch/webhook.hpp"

#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

namespace troupe::command {
namespace {

class exported_timelines final : public runtime::run_listener {
 public:
  explicit exported_timelines(const timeline_export& how) : how_(how) {}

  void begin(std::string_view run) override {
    view_.take_run(run);
    steps_.begin(run);
  }
  void take(std::string_view record) override {
    view_.take(record);
    if (!view_.timeline)
      return;
    const auto found = *std::exchange(view_.timeline, std::nullopt);
    if (!steps_.is_new(found.iteration) || !is_live_ || is_complete())
      return;
    if (!how_.trace.empty())
      trace_.add(found);
    if (!how_.otlp.empty())
      send(found);
  }
  void connection(const std::string& state) override {
    if (!state.empty() && std::exchange(told_, state) != state)
      runtime::log_warning("{}", state);
  }

  /// Ends the records of the initial state: later steps are new.
  void go_live() { is_live_ = true; }
  bool is_complete() const { return !how_.trace.empty() && trace_.steps() >= how_.steps; }
  const runtime::chrome_trace& trace() const { return trace_; }
  std::uint64_t unsent() const { return unsent_; }

 private:
  /// A collector may be unreachable for a while: warns once, and sends the later steps.
  void send(const runtime::view_timeline& x) {
    try {
      runtime::post_webhook(how_.otlp + "/v1/traces", runtime::otlp_trace(view_, x));
      is_lost_ = false;
    } catch (const runtime::error& failure) {
      if (!std::exchange(is_lost_, true))
        runtime::log_warning(
            "cannot send the timeline of step {}: {}", x.iteration, failure.what());
      ++unsent_;
    }
  }

  const timeline_export& how_;
  runtime::run_view view_;
  runtime::new_steps steps_;
  runtime::chrome_trace trace_;
  std::string told_;
  bool is_live_ = false, is_lost_ = false;
  std::uint64_t unsent_ = 0;
};

/// Requests the timelines of the next steps. By itself a run reports about one a second.
void ask_for_each_step(const runtime::followed_run& run, std::uint64_t steps) {
  if (!run.folder)
    return;
  try {
    auto to = run.at;
    to.token = runtime::control_token_of(run);
    const runtime::run_command trace = runtime::commands::trace{steps};
    runtime::send_command(to, runtime::text_of(trace));
  } catch (const runtime::error& failure) {
    runtime::log_warning("the trace has about one step a second: {}", failure.what());
  }
}

}  // namespace

int export_timelines(const runtime::followed_run& run, const timeline_export& how) {
  if (!how.otlp.empty())
    runtime::require_webhook(how.otlp);
  std::error_code ignored;
  if (how.trace.has_parent_path()
      && !std::filesystem::is_directory(how.trace.parent_path(), ignored))
    throw runtime::io_error(
        "--trace '{}' cannot be written: there is no folder '{}'; make it first",
        how.trace.string(),
        how.trace.parent_path().string());
  if (!how.trace.empty())
    if (const auto obstacle = runtime::write_obstacle(how.trace))
      throw runtime::io_error("--trace '{}' cannot be written: {}", how.trace.string(), *obstacle);
  exported_timelines to(how);
  const auto wait_for_more = [&to](std::chrono::milliseconds time) {
    if (!to.is_complete())
      std::this_thread::sleep_for(time);
    return !to.is_complete();
  };
  runtime::follower follower(run, to, wait_for_more, limits_for(run));
  auto end = follower.read();
  to.go_live();
  if (!end) {
    if (!how.trace.empty())
      ask_for_each_step(run, how.steps);
    end = follower.follow();
  }
  if (!how.trace.empty()) {
    runtime::write_text(how.trace, to.trace().text());
    print_page("wrote {} steps to '{}'; open it in chrome://tracing or https://ui.perfetto.dev\n",
               to.trace().steps(),
               how.trace.string());
  }
  if (to.unsent() > 0)
    runtime::log_warning("{} steps did not reach the collector", to.unsent());
  if (end->how != runtime::follow_outcome::ended && end->how != runtime::follow_outcome::stopped)
    runtime::log_warning("{}", text_of(*end));
  return 0;
}

}  // namespace troupe::command
