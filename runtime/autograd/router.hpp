// The choice of a router (route.hpp) on the host, and the statistics that its passes count.

#pragma once

#include "runtime/autograd/ops.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::runtime {

/// The rows that stay within an expert's capacity.
enum class drop_policy : std::uint8_t {
  probability,  ///< those with the largest weights; equal weights: the first ones
  position,     ///< the first ones
};

/// The most rows that a rank with R rows sends to one expert: ceil(R k / E * factor), at most R.
std::int64_t capacity_of(std::int64_t rows,
                         std::int64_t chosen,
                         std::int64_t experts,
                         double factor);

/// Sets choices beyond the capacity of their expert to -1. All are experts, in [0, experts).
/// `weights` has an entry for each choice, or is empty with drop_policy::position. A NaN is larger
/// than any number.
void drop_rows(std::vector<std::int32_t>& chosen,
               std::span<const float> weights,
               std::int64_t experts,
               std::int64_t capacity,
               drop_policy policy);

/// The choices of each expert, without dropped ones.
std::vector<std::int64_t> rows_of_each(const std::vector<std::int32_t>& chosen,
                                       std::int64_t experts);

/// (x - mean) / parts of each element: a part of the statistic of quantile balancing. The bias then
/// has the mean 0, as in Megatron-LM.
std::vector<float> centred(std::vector<float> x, int parts);

/// W adds `sums` (n) f32 to the gradient of a statistic (parameter_spec::counted). So a recomputed
/// forward pass counts nothing twice.
void add_statistic(tape& tape, tensor sums, int parameter);

}  // namespace troupe::runtime
