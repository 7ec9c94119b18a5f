// How an attention operation is cut into launches of one plan.
//
// cuDNN's heads have one stride, those of the fused layout [q .. q k v] per group have not when
// several query heads share a key head: then a launch takes the groups of a sequence as its batch.
// Not the sequences of a group: before 9.26 cuDNN reads lse as (B, H, T) of the launch, whatever
// strides it has. And a backward pass needs workspace, which at worst grows with the square of the
// length: a launch takes as many of its sequences or groups as fit, and all launches share it.

#pragma once

#include "kernels/cudnn/attention_graph.hpp"
#include "kernels/op/attention.hpp"

#include <optional>

namespace troupe::kernels::cudnn {

/// Launch (i, j), i below `sequences` and j below `groups`, computes `problem` with every pointer
/// moved by what offsets_of says. A launch has as many heads as every other.
struct attention_split {
  attention_problem problem;
  std::int64_t sequences = 1, groups = 1;
};

/// Bytes that dq's sum may take in a backward launch: ds of 32 heads of 4096 tokens.
inline constexpr std::int64_t backward_workspace = std::int64_t{1} << 30;

/// What decides which of cuDNN's kernels there are.
struct device_kind {
  int major;            ///< compute capability
  std::size_t version;  ///< as cudnnGetVersion has it
};

/// Whether cuDNN can say it at all: uniform sequences, no dropout, which would drop otherwise than
/// other layouts and backends do, heads whose size it has, every query sees a key.
bool sayable(const attention_shape& a, const device_kind& on, bool backward);

/// Whether there is dq_sum::in_order.
bool sums_in_order(const device_kind& on);

/// How a backward pass that is sayable sums dq: in any order where its bits may be others each
/// time, else as usual_dq_sum has it.
std::optional<dq_sum> dq_sum_for(const attention_shape& a,
                                 const device_kind& on,
                                 std::int64_t workspace = backward_workspace);

/// The way of the same bits each time. At once where one group of one sequence fits, as that is
/// faster than in order; nothing where the memory of either is not bounded.
std::optional<dq_sum> usual_dq_sum(const attention_shape& a,
                                   const device_kind& on,
                                   std::int64_t workspace = backward_workspace);

/// Of a shape that is sayable.
attention_split forward_split(const attention_shape& a, bool half);
attention_split backward_split(const attention_shape& a,
                               bool half,
                               dq_sum sum,
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
