// Helpers for implementations of operations, here and in user code.

#pragma once

#include "runtime/autograd/ops.hpp"

namespace troupe::runtime {

struct row_slots;

/// All-gather of this rank's rows over the tensor ranks.
tensor gathered(tape& tape, const tensor& rows);
/// All-reduce over the tensor ranks.
tensor summed(tape& tape, const tensor& x);

inline std::int64_t channels_of(const tensor& x) {
  return x.extents()[x.extents().rank() - 1];
}

/// Replaces the last extent by this number of channels.
inline shape with_channels(const shape& x, std::int64_t channels) {
  shape out;
  for (int i = 0; i + 1 < x.rank(); ++i)
    out.push_back(x[i]);
  out.push_back(channels);
  return out;
}

/// Breaks promise PLACEMENT-1 unless x is replicated or sequence_sharded.
inline void require_residual(const variable& x, std::string_view by) {
  if (x.placements[axis::tensor] != placement::sequence_sharded)
    require_placement(x, placement::replicated, by);
}

/// Index within the micro-batch of this rank's first row.
inline std::int64_t first_row(const tape& tape, const variable& x) {
  return x.placements[axis::tensor] == placement::sequence_sharded
             ? tape.rank() * (x.data.size() / channels_of(x.data))
             : 0;
}

/// The values of `permute` and `unpermute` (experts.hpp), without a node. `weights` (R, slots) f32
/// or empty. `permuted` reads `place`, and the number of slots.
tensor permuted(tape& tape, const tensor& x, const row_slots& slots, const tensor& weights = {});
tensor unpermuted(tape& tape, const tensor& x, const row_slots& slots, const tensor& weights = {});

inline void ensure_entries(bool kept) {
  ensure(kept, "GROUP-3: slots and their weights have an entry for each row");
}

}  // namespace troupe::runtime
