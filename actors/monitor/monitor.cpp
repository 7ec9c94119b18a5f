#include "actors/monitor/monitor.hpp"

#include "actors/support/guard.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"

#include <cerrno>
#include <chrono>
#include <cmath>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace troupe::actors {
namespace {

std::string timestamp() {
  const auto now = std::chrono::system_clock::now();
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:06d}",
                     fmt::localtime(std::chrono::system_clock::to_time_t(now)),
                     us.count() % 1000000);
}

}  // namespace

std::string log_line(const runtime::step_report& x,
                     std::uint64_t train_iterations,
                     double mean_loss,
                     double mean_ms,
                     bool throughput) {
  const double speedup = x.elapsed_ms > 0 && mean_ms > 0 ? x.elapsed_ms / mean_ms : 1;
  auto line = fmt::format(
      " [{}] iteration {:8d}/{:8d} | consumed samples: {:12d} | elapsed time per iteration (ms): "
      "{:.1f} |",
      timestamp(),
      x.iteration,
      train_iterations,
      x.consumed_samples,
      mean_ms);
  if (throughput)
    line += fmt::format(" throughput (TFLOP/s): {:.3f} |", x.flops_per_second * speedup / 1e12);
  line += fmt::format(
      " tokens/s: {:.0f} | learning rate: {:.6E} | global batch size: {:5d} | lm loss: {:.6E} | "
      "grad norm: {:.3f} |",
      x.tokens_per_second * speedup,
      x.learning_rate,
      x.global_batch_size,
      mean_loss,
      x.grad_norm);
  return line;
}

std::string log_record(const runtime::step_report& x) {
  return nlohmann::ordered_json{{"iteration", x.iteration},
                                {"consumed_samples", x.consumed_samples},
                                {"lm_loss", x.lm_loss},
                                {"grad_norm", x.grad_norm},
                                {"learning_rate", x.learning_rate},
                                {"global_batch_size", x.global_batch_size},
                                {"elapsed_ms", x.elapsed_ms},
                                {"tokens_per_second", x.tokens_per_second},
                                {"state_digest", to_string(x.state)}}
      .dump();
}

std::string log_record(const runtime::validation_report& x) {
  return nlohmann::ordered_json{{"iteration", x.iteration}, {"validation_loss", x.loss}}.dump();
}

monitor_state::~monitor_state() {
  if (log_ != nullptr)
    std::fclose(log_);
}

void monitor_state::start(std::shared_ptr<const resources> shared) {
  shared_ = std::move(shared);
  end_on_exception(self_, "monitor");
  const auto& watch = shared_->job.watch;
  if (!watch.log_file.empty()) {
    // A run that goes on appends: the log is that of the whole training.
    log_ = std::fopen(watch.log_file.c_str(), shared_->first_iteration > 0 ? "a" : "w");
    if (log_ == nullptr)
      throw runtime::io_error("cannot open --log-file '{}': {}",
                              watch.log_file.string(),
                              runtime::system_message(errno));
  }
  if (watch.progress)
    bar_ = std::make_unique<runtime::progress_bar>(
        "training", shared_->job.train_iterations, "iterations");
}

void monitor_state::record(const std::string& line) {
  if (log_ == nullptr)
    return;
  if (std::fputs((line + "\n").c_str(), log_) < 0 || std::fflush(log_) != 0)
    throw runtime::io_error("cannot write --log-file '{}': {}",
                            shared_->job.watch.log_file.string(),
                            runtime::system_message(errno));
}

void monitor_state::receive(const messages::committed& x) {
  const auto& report = x.report;
  shared_->planted->strike("monitor", report.iteration);
  record(log_record(report));
  loss_sum_ += report.lm_loss;
  ms_sum_ += report.elapsed_ms;
  ++steps_;
  const auto interval = shared_->job.watch.log_interval;
  if (interval > 0 && report.iteration % interval == 0) {
    runtime::log_line(runtime::severity::info,
                      log_line(report,
                               shared_->job.train_iterations,
                               loss_sum_ / steps_,
                               ms_sum_ / steps_,
                               shared_->job.watch.log_throughput));
    loss_sum_ = ms_sum_ = 0;
    steps_ = 0;
  }
  if (bar_)
    bar_->advance_to(report.iteration);
}

void monitor_state::receive(const messages::validated& x) {
  record(log_record(x.report));
  runtime::log_info(
      " validation loss at iteration {} | lm loss value: {:.6E} | lm loss PPL: {:.6E} |",
      x.report.iteration,
      x.report.loss,
      std::exp(std::min(20.0, x.report.loss)));
}

messages::monitor_actor::behavior_type monitor(
    messages::monitor_actor::stateful_pointer<monitor_state> self,
    std::shared_ptr<const resources> shared) {
  self->state.start(std::move(shared));
  return {[self](const messages::committed& x) { self->state.receive(x); },
          [self](const messages::validated& x) { self->state.receive(x); },
          [](messages::conclude) { return messages::concluded{}; }};
}

}  // namespace troupe::actors
