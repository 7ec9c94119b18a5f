// What of a chunk is computed again, and the blocks of its backward pass.

#pragma once

#include "runtime/model/chunk.hpp"
#include "runtime/model/recompute.hpp"

#include <vector>

namespace troupe::runtime {

/// Segments [first, end) of which the tape keeps nothing but their inputs: they run again.
struct recompute_group {
  int first = 0, end = 0;
};

/// What one action of the backward pass works on: segments [first, end).
struct backward_block {
  int first = 0, end = 0;
  bool recomputed = false;  ///< it ends with a recompute group: R comes before its I
};

/// What of a chunk is computed again. Every group of layers, or module of one, that is recomputed
/// together ends a block of its own, so that only one is in memory whole.
struct recompute_plan {
  recompute_plan(const chunk& of, const recompute_settings& settings);

  std::vector<recompute_group> groups;  ///< ascending
  std::vector<backward_block> blocks;   ///< ascending, at least one; backward descends
};

}  // namespace troupe::runtime
