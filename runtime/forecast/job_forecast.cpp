#include "runtime/forecast/job_forecast.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/job/batches.hpp"
#include "runtime/job/pipeline.hpp"
#include "runtime/model/counts.hpp"
#include "runtime/model/stages.hpp"

namespace troupe::runtime {

model_outline outline_of_model(const training_job& job) {
  const auto& model = job.training.model;
  auto out = model.family().outline(model);
  if (!out)
    throw input_error(
        "cannot forecast the time of {}: its family has no outline of its operations "
        "(model_family::outline); `troupe memory` forecasts its memory",
        model.family().title());
  return *std::move(out);
}

step_outline outline_of_step(const training_job& job) {
  const auto& l = job.layout;
  const auto letters = letters_of(job.training);
  step_outline out{.world = l.world,
                   .tensor = l.tensor,
                   .pipeline = l.pipeline,
                   .expert = l.expert,
                   .expert_tensor = l.expert_tensor_ranks(),
                   .order = l.order,
                   .micro = job.training.batch.micro,
                   .global = job.training.batch.global,
                   .precision = job.training.precision,
                   .sequence_parallel = l.sequence_parallel,
                   .distributed_optimizer = job.reduction.distributed_optimizer,
                   .overlap_gradients = job.reduction.overlap_gradients,
                   .overlap_parameters = job.reduction.overlap_parameters,
                   .recompute = job.recompute};
  for (const auto& range : l.chunks) {
    const auto layers = layers_in(range, letters);
    out.chunks.push_back({.first = int(layers.first),
                          .end = int(layers.end),
                          .embedding = range.first == 0 && range.end > 0,
                          .head = range.end == units_of(letters) && range.end > range.first});
  }
  return out;
}

job_forecast forecast_job(const training_job& job,
                          const cluster_outline& on,
                          double between_failures,
                          const assumed_parts& assumed) {
  const auto& batch = job.training.batch;
  const auto model = outline_of_model(job);
  const auto pipeline = pipeline_of(job);
  const auto plan = pipeline.schedule->training(planned_microbatches(job));
  auto step = outline_of_step(job);
  step.fp8 = assumed.fp8;
  step.context = assumed.context;
  step.world *= assumed.context;
  job_forecast out{.step = forecast_step(model, step, on, *plan), .devices = step.world};
  out.tokens = double(batch.global) * model.sequence;
  out.flops = training_flops(spec_of(job.training), schema_of(job), double(batch.global));
  out.peak = (step.fp8 ? *on.device.fp8 : on.device.peak(step.precision)) * step.world;
  out.goodput = forecast_goodput(on, step.world, out.step.seconds, between_failures);
  return out;
}

}  // namespace troupe::runtime
