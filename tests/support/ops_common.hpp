// Common parts of the owners of operations; see ops.hpp.

#pragma once

#include "kernels/op/activation.hpp"
#include "kernels/op/adamw.hpp"
#include "kernels/op/attention.hpp"
#include "kernels/op/cross_entropy.hpp"
#include "kernels/op/dropout.hpp"
#include "kernels/op/embedding.hpp"
#include "kernels/op/head_norm.hpp"
#include "kernels/op/linear.hpp"
#include "kernels/op/masked_loss.hpp"
#include "kernels/op/norm.hpp"
#include "kernels/op/rope.hpp"
#include "kernels/op/sample.hpp"
#include "kernels/op/sum.hpp"
#include "tests/support/numbers.hpp"

#include <numeric>

namespace troupe::tests {

/// The value of results before they are written; no operation computes it.
inline constexpr float unwritten = -777;

template <class T>
std::vector<T> blank(std::int64_t n) {
  return std::vector<T>(std::size_t(n), T(unwritten));
}

/// Whole numbers in [0, below).
inline std::vector<std::int32_t> draws(std::int64_t n, std::int64_t below, std::uint32_t seed) {
  std::mt19937 rng{seed};
  std::vector<std::int32_t> out(static_cast<std::size_t>(n));
  for (auto& value : out)
    value = std::int32_t(rng() % std::uint64_t(below));
  return out;
}

}  // namespace troupe::tests
