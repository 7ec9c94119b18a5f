#include "actors/command/run_training.hpp"

#include "actors/command/signals.hpp"
#include "actors/job/prepare.hpp"
#include "actors/job/run.hpp"
#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/core/log.hpp"

#include <mutex>
#include <optional>
#include <string>

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
  }

  void connect(const actors::drain_request& ask) {
    const std::lock_guard lock(mutex_);
    ask_ = ask;
    if (!why_.empty())
      ask_(why_);
  }

 private:
  std::mutex mutex_;
  std::string why_;
  actors::drain_request ask_;
};

}  // namespace

int run_training(const runtime::training_job& job) {
  drain_switch drain;
  const signal_watch signals([&](const char* name) { drain.signalled(name); });
  std::optional<runtime::directory_lock> lock;
  if (!job.checkpoints.save.empty())
    lock.emplace(job.checkpoints.save);
  const auto shared = actors::prepare(job);
  if (shared->first_iteration >= job.train_iterations)
    runtime::log_info(" nothing to do: iteration {} of {} is already there",
                      shared->first_iteration,
                      job.train_iterations);
  const auto end
      = actors::run(shared, [&](const actors::drain_request& ask) { drain.connect(ask); });
  if (shared->trace) {
    shared->trace->write_chrome(job.watch.trace_file);
    runtime::log_info(" trace written to {}", job.watch.trace_file.string());
  }
  if (end.exit_code != 0)
    runtime::log_error("the run ended early: {}", end.reason);
  return end.exit_code;
}

}  // namespace troupe::command
