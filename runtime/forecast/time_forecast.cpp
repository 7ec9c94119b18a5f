#include "runtime/forecast/time_forecast.hpp"

#include "runtime/family/model_family.hpp"
#include "runtime/job/batches.hpp"
#include "runtime/job/pipeline.hpp"
#include "runtime/machine/machine.hpp"
#include "runtime/machine/matrix_rate.hpp"
#include "runtime/model/counts.hpp"
#include "runtime/schedule/simulate.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

/// Share of the rate of matrix products that a training step reaches: measured on two cores with
/// AVX2, models of 2 to 30 million parameters. Dropout draws a random number for each value.
constexpr double usual_share = 0.55, share_with_dropout = 0.35;

constexpr double forward_share = 1.0 / 3;  ///< of the operations of a training step

double bubble_of(const training_job& job) {
  const auto pipeline = pipeline_of(job);
  const auto& plan = *pipeline.schedule->training(planned_microbatches(job));
  const auto chunks = double(pipeline.chunks.size()) / job.layout.pipeline;
  return simulate(plan, shared_costs({}, chunks)).bubble();
}

}  // namespace

double remaining_flops(const training_job& job, std::uint64_t from) {
  const auto& batch = job.training.batch;
  std::int64_t consumed = 0;
  double samples = 0;
  std::uint64_t step = 0;
  for (; step < job.train_iterations && !is_settled(batch, consumed); ++step) {
    const auto size = global_batch_size(batch, consumed);
    consumed += size;
    samples += step >= from ? double(size) : 0;
  }
  if (const auto begin = std::max(step, from); begin < job.train_iterations)
    samples += double(job.train_iterations - begin) * double(batch.global);
  const auto& watch = job.watch;
  if (watch.eval_interval > 0 && job.train_iterations > from) {
    const auto times = job.train_iterations / watch.eval_interval - from / watch.eval_interval;
    samples += forward_share * double(times) * double(watch.eval_batches) * double(batch.global);
  }
  return training_flops(spec_of(job.training), schema_of(job), samples);
}

time_forecast forecast_time(const training_job& job,
                            std::uint64_t from,
                            double matrix_rate,
                            double bubble) {
  const auto& model = job.training.model;
  const bool drops = model.family().has_dropout(model);
  const double share = drops ? share_with_dropout : usual_share;
  return {remaining_flops(job, from) / (matrix_rate * share * (1 - bubble)), matrix_rate};
}

std::optional<time_forecast> measured_forecast(const training_job& job, std::uint64_t from) {
  if (job.backend != kernels::backend::cpu)
    return std::nullopt;
  const int cores = look_at_processor().usable();
  const bool share_cores = job.layout.world * job.threads_per_worker > cores;
  const int workers = share_cores ? cores : job.layout.world;
  const auto rate = measured_matrix_rate(job.backend,
                                         workers,
                                         share_cores ? 1 : job.threads_per_worker,
                                         job.training.precision == dtype::bf16);
  return forecast_time(job, from, rate, share_cores ? 0 : bubble_of(job));
}

}  // namespace troupe::runtime
