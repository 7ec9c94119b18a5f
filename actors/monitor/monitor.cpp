#include "actors/monitor/monitor.hpp"

#include "actors/support/guard.hpp"
#include "runtime/core/log.hpp"
#include "runtime/telemetry/event_file.hpp"
#include "runtime/telemetry/run_log.hpp"

#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {
namespace {

// Together less than the supervisor's patience with us.
constexpr auto patience = std::chrono::milliseconds(4000);

runtime::log_settings log_settings_of(const resources& shared) {
  return {.throughput = shared.job.watch.log_throughput,
          .matrix_rate = shared.matrix_rate,
          .append = shared.first_iteration > 0};
}

}  // namespace

void monitor_state::start(std::shared_ptr<const resources> shared) {
  shared_ = std::move(shared);
  end_on_exception(self_, "monitor");
  open_recorders();
  if (shared_->job.watch.progress)
    bar_ = std::make_unique<runtime::progress_bar>(
        "training", shared_->job.train_iterations, "iterations", shared_->first_iteration);
}

void monitor_state::open_recorders() {
  const auto& watch = shared_->job.watch;
  const auto how = log_settings_of(*shared_);
  const auto add = [this](const char* flag,
                          const std::filesystem::path& path,
                          const runtime::recorder::opener& open) {
    if (!path.empty())
      watchers_.push_back(
          {fmt::format("{} '{}'", flag, path.string()), std::make_unique<runtime::recorder>(open)});
  };
  add("--log-file", watch.log_file, [path = watch.log_file, how] {
    return runtime::open_json_log(path, how);
  });
  const auto is_validated = [interval = shared_->validation ? watch.eval_interval : 0,
                             last = shared_->job.train_iterations](std::uint64_t iteration) {
    return interval > 0 && (iteration % interval == 0 || iteration >= last);
  };
  add("--log-csv", watch.csv_file, [path = watch.csv_file, how, is_validated] {
    return runtime::open_csv_log(path, how, is_validated);
  });
  add("--tensorboard-dir",
      watch.board_dir,
      [path = watch.board_dir,
       board = runtime::board_settings{
           how, watch.board_interval, shared_->first_iteration, shared_->first_consumed}] {
        return runtime::open_event_file(path, board);
      });
}

void monitor_state::record(const runtime::watched& x) {
  for (auto& to : watchers_) {
    to.by->record(x);
    if (const auto trouble = to.by->trouble())
      runtime::log_warning("{}; the run goes on, and it is tried again", *trouble);
  }
}

void monitor_state::receive(const messages::committed& x) {
  const auto& report = x.report;
  shared_->planted->strike("monitor", report.iteration);
  record(report);
  since_.add(report);
  const auto& job = shared_->job;
  const auto interval = job.watch.log_interval;
  if (interval > 0
      && (report.iteration % interval == 0 || report.iteration == job.train_iterations)) {
    runtime::log_line(runtime::severity::info,
                      log_line(report, since_, job.train_iterations, log_settings_of(*shared_)));
    since_ = {};
  }
  if (bar_)
    bar_->advance_to(report.iteration);
}

void monitor_state::receive(const messages::validated& x) {
  record(x.report);
  runtime::log_info(
      " validation loss at iteration {} | lm loss value: {:.6E} | lm loss PPL: {:.6E} |",
      x.report.iteration,
      x.report.loss,
      std::exp(std::min(20.0, x.report.loss)));
}

void monitor_state::conclude() {
  const auto until = std::chrono::steady_clock::now() + patience;
  for (auto& to : watchers_)
    to.by->close();
  for (auto& to : watchers_) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    const bool whole = to.by->finish(std::max(left, std::chrono::milliseconds(0)));
    if (const auto trouble = to.by->trouble())
      runtime::log_warning("{}", *trouble);
    const auto missing
        = to.by->dropped() + (whole ? 0 : std::max<std::uint64_t>(to.by->waiting(), 1));
    if (!whole)
      runtime::log_warning(
          "{} is not written to its end: {} records are missing", to.what, missing);
    else if (missing > 0)
      runtime::log_warning("{} has gaps: {} records are missing", to.what, missing);
  }
  bar_.reset();
}

messages::monitor_actor::behavior_type monitor(
    messages::monitor_actor::stateful_pointer<monitor_state> self,
    std::shared_ptr<const resources> shared) {
  self->state.start(std::move(shared));
  return {[self](const messages::committed& x) { self->state.receive(x); },
          [self](const messages::validated& x) { self->state.receive(x); },
          [self](messages::conclude) {
            self->state.conclude();
            return messages::concluded{};
          }};
}

}  // namespace troupe::actors
