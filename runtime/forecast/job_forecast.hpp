// Forecast of a job on a cluster: time, speed, memory and goodput.

#pragma once

#include "runtime/forecast/goodput.hpp"
#include "runtime/forecast/memory_forecast.hpp"
#include "runtime/forecast/step_forecast.hpp"
#include "runtime/job/job.hpp"

namespace troupe::runtime {

/// Sizes of the job's model. Throws input_error for a family without an outline.
model_outline outline_of_model(const training_job& job);

/// The layout, batch and overlap of the job.
step_outline outline_of_step(const training_job& job);

/// Parts that a forecast may assume although Troupe does not compute them.
struct assumed_parts {
  bool fp8 = false;  ///< products of layers in FP8
  int context = 1;   ///< devices that share each sequence, in place of each worker
};

struct job_forecast {
  step_forecast step;
  int devices = 0;
  double tokens = 0;  ///< of a step
  double flops = 0;   ///< of a step: training_flops
  double peak = 0;    ///< FLOP/s of all devices of the job
  goodput_forecast goodput;

  double tokens_per_second() const { return tokens / step.seconds; }
  double rate() const { return flops / step.seconds; }
  double utilization() const { return rate() / peak; }  ///< MFU
};

/// `between_failures`: see forecast_goodput.
job_forecast forecast_job(const training_job& job,
                          const cluster_outline& on,
                          double between_failures = 0,
                          const assumed_parts& assumed = {});

}  // namespace troupe::runtime
