// Recompute groups of a chunk, and the blocks of its backward pass.

#pragma once

#include "runtime/model/chunk.hpp"
#include "runtime/model/recompute.hpp"

#include <vector>

namespace troupe::runtime {

/// Segments [first, end) that run again in the backward pass. The tape keeps only their inputs.
struct recompute_group {
  int first = 0, end = 0;
};

/// Segments [first, end) that one action of the backward pass handles.
struct backward_block {
  int first = 0, end = 0;
  bool recomputed = false;  ///< ends with a recompute group: R runs before I
};

/// Each recompute group ends a block of its own, so that only one group at a time has its
/// activations in memory.
struct recompute_plan {
  recompute_plan(const chunk& of, const recompute_settings& settings);

  std::vector<recompute_group> groups;  ///< ascending
  std::vector<backward_block> blocks;   ///< ascending, at least one; backward goes in reverse
};

}  // namespace troupe::runtime
