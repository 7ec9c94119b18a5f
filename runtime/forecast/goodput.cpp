#include "runtime/forecast/goodput.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::runtime {
namespace {

/// Share of a step in which the newest committed state travels to its keeper. A step is decided
/// only when the one before is kept, so it is below 1; assumed.
constexpr double unkept_share = 0.5;

}  // namespace

goodput_forecast forecast_goodput(const cluster_outline& on,
                                  int devices,
                                  double step_seconds,
                                  double between_failures) {
  goodput_forecast out;
  out.between_failures
      = between_failures > 0 ? between_failures : on.device_seconds_between_failures / devices;
  const double M = out.between_failures;
  if (M == 0)
    return out;
  out.lost = on.detection + on.restart + (0.5 + unkept_share) * step_seconds;
  out.with_recovery = std::max(0.0, 1 - out.lost / M);
  out.interval = std::max(step_seconds, std::sqrt(2 * on.checkpoint * M));
  const double lost = on.detection + on.job_restart + out.interval / 2;
  out.with_checkpoints
      = std::max(0.0, 1 - lost / M) * out.interval / (out.interval + on.checkpoint);
  return out;
}

}  // namespace troupe::runtime
