#include "runtime/optim/schedules.hpp"

#include "runtime/core/error.hpp"

#include <cmath>
#include <numbers>

namespace troupe::runtime {

double learning_rate(const rate_schedule& s, std::int64_t consumed) {
  if (s.warmup > 0 && consumed <= s.warmup)
    return s.warmup_start + (s.maximum - s.warmup_start) * double(consumed) / double(s.warmup);
  if (s.style == decay_style::constant)
    return s.maximum;
  if (consumed > s.decay)
    return s.minimum;
  const double r = double(consumed - s.warmup) / double(s.decay - s.warmup);
  const double c
      = s.style == decay_style::linear ? 1 - r : 0.5 * (std::cos(std::numbers::pi * r) + 1);
  return s.minimum + c * (s.maximum - s.minimum);
}

std::int64_t global_batch_size(const batch_schedule& s, std::int64_t consumed) {
  if (s.ramp_start == 0 || consumed > s.ramp_samples || s.ramp_start == s.global)
    return s.global;
  const auto increments = (s.global - s.ramp_start) / s.ramp_increment;
  const double each = double(s.ramp_samples) / double(increments);
  const auto done = each > 0 ? std::int64_t(double(consumed) / each) : increments;
  return s.ramp_start + done * s.ramp_increment;
}

std::int64_t microbatches(const batch_schedule& s, std::int64_t consumed) {
  return global_batch_size(s, consumed) / (s.micro * s.data_parallel);
}

void check(const batch_schedule& s) {
  if (s.micro < 1 || s.global < 1)
    throw input_error(
        "`batch.micro` {} and `batch.global` {} must be at least 1", s.micro, s.global);
  const auto each = s.micro * s.data_parallel;
  const auto divides = [&](std::int64_t size, const char* what) {
    if (size % each == 0 && size > 0)
      return;
    const auto below = size / each * each;
    throw input_error(
        "{} {} is not a multiple of `batch.micro` {} times the {} data-parallel replicas: "
        "every replica gets the same number of micro-batches; the nearest that would do: {}",
        what,
        size,
        s.micro,
        s.data_parallel,
        below > 0 && size - below <= each / 2 ? below : below + each);
  };
  divides(s.global, "`batch.global`");
  if (s.ramp_start == 0)
    return;
  if (s.ramp_increment < 1 || s.ramp_samples < 0 || s.ramp_start > s.global
      || (s.global - s.ramp_start) % s.ramp_increment != 0)
    throw input_error(
        "`batch.ramp` {} {} {}: from the start batch size whole increments must lead to "
        "`batch.global` {}",
        s.ramp_start,
        s.ramp_increment,
        s.ramp_samples,
        s.global);
  for (auto size = s.ramp_start; size < s.global; size += s.ramp_increment)
    divides(size, "`batch.ramp`: batch size");
}

}  // namespace troupe::runtime
