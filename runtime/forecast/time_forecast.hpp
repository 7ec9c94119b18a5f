// Forecasts the duration of a run on this machine: the time of its operations at the rate of matrix
// products here. On processors the estimate is within about a factor of 1.5.

#pragma once

#include "runtime/job/job.hpp"

#include <cstdint>
#include <optional>

namespace troupe::runtime {

/// Floating-point operations from iteration `from` to the end, with the validations.
double remaining_flops(const training_job& job, std::uint64_t from);

struct time_forecast {
  double seconds = 0;
  double matrix_rate = 0;  ///< FLOP/s of matrix products on all workers together

  friend bool operator==(const time_forecast&, const time_forecast&) = default;
};

/// Forecast from a rate of matrix products. `bubble`: share of the time in which workers wait for
/// their turn in the pipeline, if each has its own cores.
time_forecast forecast_time(const training_job& job,
                            std::uint64_t from,
                            double matrix_rate,
                            double bubble);

/// Forecast from products that are measured on this machine, which takes 0.2 s. Empty for a job
/// that does not compute on CPUs.
std::optional<time_forecast> measured_forecast(const training_job& job, std::uint64_t from);

}  // namespace troupe::runtime
