// How an attention operation is cut into launches of one plan.
//
// cuDNN's heads have one stride, those of the fused layout [q .. q k v] per group have not when
// several query heads share a key head: then a launch takes the groups as its batch, or one group.
// And the workspace of a backward pass grows with the square of the length: launches that are too
// large are cut too, and share it.

#pragma once

#include "kernels/cudnn/attention_graph.hpp"
#include "kernels/op/attention.hpp"

namespace troupe::kernels::cudnn {

/// Launch (i, j), i below `sequences` and j below `groups`, computes `problem` with every pointer
/// moved by what the functions say.
struct attention_split {
  attention_problem problem;
  std::int64_t sequences = 1, groups = 1;
};

/// Bytes of workspace that a backward launch may take, if a smaller cut can help.
inline constexpr std::int64_t backward_workspace = std::int64_t{512} << 20;

/// Whether cuDNN can say it at all: uniform sequences, no dropout, heads whose size it has, every
/// query sees a key.
bool sayable(const attention_shape& a);

/// Of a shape that is sayable.
attention_split split_of(const attention_shape& a, bool half, bool backward);

/// Elements from the first launch's pointers to those of launch (sequence, group).
struct attention_offsets {
  std::int64_t q, k, o, lse;
};
attention_offsets offsets_of(const attention_shape& a, std::int64_t sequence, std::int64_t group);

}  // namespace troupe::kernels::cudnn
