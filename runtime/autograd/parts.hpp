// For the sources of operations: of this room, and of a user's own.

#pragma once

#include "runtime/autograd/ops.hpp"

namespace troupe::runtime {

/// Rows of all tensor ranks, from this rank's.
tensor gathered(tape& tape, const tensor& rows);

inline std::int64_t channels_of(const tensor& x) {
  return x.extents()[x.extents().rank() - 1];
}

/// The same rows with another width.
inline shape with_channels(const shape& x, std::int64_t channels) {
  shape out;
  for (int i = 0; i + 1 < x.rank(); ++i)
    out.push_back(x[i]);
  out.push_back(channels);
  return out;
}

/// Broken promise PLACEMENT-1 unless replicated or sequence_sharded.
inline void require_residual(const variable& x, std::string_view by) {
  if (x.placements[axis::tensor] != placement::sequence_sharded)
    require_placement(x, placement::replicated, by);
}

/// Number in the micro-batch of the first row that lies on this rank.
inline std::int64_t first_row(const tape& tape, const variable& x) {
  return x.placements[axis::tensor] == placement::sequence_sharded
             ? tape.rank() * (x.data.size() / channels_of(x.data))
             : 0;
}

}  // namespace troupe::runtime
