#include "actors/command/flags.hpp"
#include "runtime/job/job_data.hpp"

namespace troupe::command {
namespace {

template <class T, class U>
void decide(std::optional<T>& flag, const U& value) {
  if (!flag)
    flag = T(value);
}

/// Decides a setting that was not given.
template <class T>
void decide(training_flags& flags, const char* setting, T& to, const T& value) {
  if (flags.given.insert(setting).second)
    to = value;
}

}  // namespace

void write_back(const runtime::training_job& job, training_flags& flags) {
  const auto& model = job.training.model;
  const bool from_hub = !flags.job.checkpoints.load_hub.empty();
  model.family().write_back(model, flags.model, flags.given, from_hub);
  decide(flags, "layout.world", flags.job.layout.world, job.layout.world);
  decide(flags, "recovery.on", flags.job.recovery.on, job.recovery.on);
  decide(flags, "threads_per_worker", flags.job.threads_per_worker, job.threads_per_worker);
  auto& batch = flags.job.training.batch;
  decide(flags, "batch.global", batch.global, job.training.batch.global);
  if (runtime::has_own_files(job)) {  // epochs decide both
    auto& watch = flags.job.watch;
    decide(flags, "watch.eval_interval", watch.eval_interval, job.watch.eval_interval);
    decide(flags, "watch.eval_batches", watch.eval_batches, job.watch.eval_batches);
  }
  if (flags.steps.samples)
    decide(flags.rate.decay_samples, *flags.steps.samples);
  else
    decide(flags.rate.decay_iterations, job.train_iterations);
}

}  // namespace troupe::command
