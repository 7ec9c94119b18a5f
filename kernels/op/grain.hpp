// Grains: fixed-length parts of an array that are computed independently, so results do not depend
// on how data ranks share the array. The last grain of an array may be shorter.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

constexpr std::int64_t grains_in(std::int64_t n, std::int64_t grain) {
  return (n + grain - 1) / grain;
}

/// Total elements in an operation's pieces.
template <class Op>
constexpr std::int64_t elements_of(const Op& op) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < op.count; ++i)
    sum += op.pieces[i].n;
  return sum;
}

/// Total grains in an operation's pieces.
template <class Op>
constexpr std::int64_t grains_of(const Op& op) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < op.count; ++i)
    sum += grains_in(op.pieces[i].n, op.grain);
  return sum;
}

}  // namespace troupe::kernels
