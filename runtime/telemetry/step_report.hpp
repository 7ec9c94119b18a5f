// What is said of one committed step.

#pragma once

#include "runtime/core/hash.hpp"

#include <cstdint>

namespace troupe::runtime {

struct step_report {
  std::uint64_t iteration = 0;         ///< 1 is the first
  std::uint64_t consumed_samples = 0;  ///< after this step
  std::int64_t global_batch_size = 0;
  double lm_loss = 0;        ///< mean over the tokens of the step that count
  double grad_norm = 0;      ///< before clipping
  double learning_rate = 0;  ///< that this step's update used
  double elapsed_ms = 0;
  double tokens_per_second = 0;
  double flops_per_second = 0;
  digest state;  ///< parameters and moments after this step

  friend bool operator==(const step_report&, const step_report&) = default;
};

struct validation_report {
  std::uint64_t iteration = 0;
  double loss = 0;

  friend bool operator==(const validation_report&, const validation_report&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, digest& x) {
  return f(x.high, x.low);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, step_report& x) {
  return f(x.iteration,
           x.consumed_samples,
           x.global_batch_size,
           x.lm_loss,
           x.grad_norm,
           x.learning_rate,
           x.elapsed_ms,
           x.tokens_per_second,
           x.flops_per_second,
           x.state);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, validation_report& x) {
  return f(x.iteration, x.loss);
}

}  // namespace troupe::runtime
