#include "actors/command/run_training.hpp"

#include "actors/command/saved_configuration.hpp"
#include "actors/command/signals.hpp"
#include "actors/job/prepare.hpp"
#include "actors/job/run.hpp"
#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/file_lock.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/tokenizer/description.hpp"
#include "runtime/trainer/build.hpp"
#include "runtime/trainer/memory_forecast.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::command {
namespace {

/// A signal may come before there is anybody to tell.
class drain_switch {
 public:
  void signalled(const char* name) {
    const std::lock_guard lock(mutex_);
    why_ = name;
    if (ask_)
      ask_(why_);
    else
      stop_.cancel();
  }

  void connect(const actors::drain_request& ask) {
    const std::lock_guard lock(mutex_);
    ask_ = ask;
    if (!why_.empty())
      ask_(why_);
  }

  /// Cancelled when there is nobody to tell: the run is still being prepared.
  const runtime::cancel_token& stop() const { return stop_; }
  std::string why() {
    const std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  std::mutex mutex_;
  std::string why_;
  runtime::cancel_token stop_;
  actors::drain_request ask_;
};

constexpr int users_fault = 2;
constexpr auto reader_patience = std::chrono::seconds(5);

/// False when it cannot be written: that is told, and does not hide how the run ended.
bool write_trace(const actors::resources& shared) {
  if (!shared.trace)
    return true;
  const auto& file = shared.job.watch.trace_file;
  try {
    shared.trace->write_chrome(file);
    runtime::log_info(" trace written to {}", file.string());
    return true;
  } catch (const runtime::error& failure) {
    runtime::log_error("the trace is lost: {}", failure.what());
    return false;
  }
}

/// Before the first step, of the worker that needs most. Tensor ranks need the same, and so do data
/// ranks unless each has its part of the optimizer.
runtime::memory_forecast forecast(const runtime::training_job& job, int& stage) {
  runtime::memory_forecast most;
  const int replicas = job.layout.world / (job.layout.tensor * job.layout.pipeline);
  for (int p = 0; p < job.layout.pipeline; ++p)
    for (int d = 0; d < (job.reduction.distributed_optimizer ? replicas : 1); ++d) {
      const auto x = runtime::forecast_memory(job, {0, 0, 0, d, p});
      if (x.peak() <= most.peak())
        continue;
      most = x;
      stage = p;
    }
  return most;
}

std::string human(std::int64_t bytes) {
  return runtime::human_bytes(double(bytes));
}

/// What the forecast was worth.
void compare_memory(const actors::resources& shared, const runtime::memory_forecast& expected) {
  std::size_t most = 0;
  for (const auto& [rank, peak] : shared.pools->peaks())
    most = std::max(most, peak);
  runtime::log_info(
      " memory of a worker: at most {}; {} had been forecast{}",
      human(std::int64_t(most)),
      human(expected.peak()),
      shared.job.checkpoints.save.empty()
          ? ""
          : fmt::format(", and {} more while a checkpoint is written", human(expected.snapshot)));
}

/// Two runs that wrote one log would leave none.
std::vector<runtime::file_lock> locked_outputs(const runtime::watch_settings& watch) {
  std::vector<runtime::file_lock> out;
  const std::pair<const char*, const std::filesystem::path&> all[]
      = {{"write --log-file", watch.log_file},
         {"write --log-csv", watch.csv_file},
         {"write --tensorboard-dir", watch.board_dir},
         {"write --trace", watch.trace_file}};
  for (const auto& [what, path] : all)
    if (!path.empty())
      out.emplace_back(path, what);
  return out;
}

int carry_out(const runtime::training_job& job,
              const std::string& configuration,
              drain_switch& drain) {
  runtime::log_info(" {}", runtime::version_text());
  std::optional<runtime::directory_lock> lock;
  if (!job.checkpoints.save.empty())
    lock.emplace(job.checkpoints.save);
  const auto outputs = locked_outputs(job.watch);
  const auto shared = actors::prepare(job, drain.stop());
  if (!job.checkpoints.save.empty() && !job.tokenizer_description.empty())
    runtime::keep_tokenizer(job.tokenizer_description, job.checkpoints.save);
  if (!job.checkpoints.save.empty())
    save_configuration(job.checkpoints.save, configuration);
  if (shared->first_iteration >= job.train_iterations)
    runtime::log_info(" nothing to do: iteration {} of {} is already there",
                      shared->first_iteration,
                      job.train_iterations);
  int stage = 0;
  const auto memory = forecast(shared->job, stage);
  runtime::log_info(
      " memory of a worker: up to {}, on stage {} (parameters {}, gradients {}, optimizer {}, "
      "activations {})",
      human(memory.peak()),
      stage,
      human(memory.parameters),
      human(memory.gradients),
      human(memory.optimizer),
      human(memory.activations));
  const auto end
      = actors::run(shared, [&](const actors::drain_request& ask) { drain.connect(ask); });
  if (end.exit_code != 0)
    runtime::log_error("the run ended early: {}", end.reason);
  else if (!shared->pools->peaks().empty())
    compare_memory(*shared, memory);
  const bool traced = write_trace(*shared);
  return end.exit_code == 0 && !traced ? users_fault : end.exit_code;
}

}  // namespace

int run_training(const runtime::training_job& job, const std::string& configuration) {
  drain_switch drain;
  const signal_watch signals([&](const char* name) { drain.signalled(name); });
  runtime::write_log_beside();
  int code = 0;
  try {
    code = carry_out(job, configuration, drain);
  } catch (const runtime::cancelled&) {
    runtime::log_info(" {}: stopped before the first iteration; nothing was trained or saved",
                      drain.why());
  } catch (...) {
    runtime::finish_log(reader_patience);
    throw;
  }
  if (!runtime::finish_log(reader_patience))
    std::_Exit(code);  // whoever should read our output hangs; an ordinary end would wait for it
  return code;
}

}  // namespace troupe::command
