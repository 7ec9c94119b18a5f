// How an attention operation is cut into launches of one plan.
//
// cuDNN's heads have one stride, those of the fused layout [q .. q k v] per group have not when
// several query heads share a key head: then a launch takes the groups as its batch, or the
// sequences of one group. And the workspace of a backward pass grows with the square of the length:
// a launch takes as many of its sequences or groups as fit, and all launches share it.

#pragma once

#include "kernels/cudnn/attention_graph.hpp"
#include "kernels/op/attention.hpp"

namespace troupe::kernels::cudnn {

/// Launch (i, j), i below `sequences` and j below `groups`, computes `problem` with every pointer
/// moved by what offsets_of says. A launch has as many heads as every other.
struct attention_split {
  attention_problem problem;
  std::int64_t sequences = 1, groups = 1;
};

/// Bytes that the square of a backward launch may take, if a smaller cut can help: all of it for 32
/// heads of 4096 tokens.
inline constexpr std::int64_t backward_workspace = std::int64_t{1} << 30;

/// Whether cuDNN can say it at all: uniform sequences, no dropout, heads whose size it has, every
/// query sees a key.
bool sayable(const attention_shape& a);

/// Of a shape that is sayable.
attention_split split_of(const attention_shape& a,
                         bool half,
                         bool backward,
                         std::int64_t workspace = backward_workspace);

/// Elements from the first launch's pointers to those of launch (i, j).
struct attention_offsets {
  std::int64_t q, k, o, lse;
};
attention_offsets offsets_of(const attention_shape& a,
                             const attention_split& split,
                             std::int64_t i,
                             std::int64_t j);

}  // namespace troupe::kernels::cudnn
