// Splits an attention operation into launches of one plan.
//
// cuDNN's heads have a single stride. Those of the fused layout [q .. q k v] per group do not, if
// several query heads share a key head. Then a launch takes the groups of one sequence as its
// batch. It cannot take the sequences of one group: before 9.26, cuDNN reads lse as (B, H, T) of
// the launch, whatever its strides.
//
// The workspace of a backward pass can grow with the square of the length. So a launch takes as
// many sequences or groups as fit, and all launches share the workspace.

#pragma once

#include "kernels/cudnn/attention_graph.hpp"
#include "kernels/op/attention.hpp"

#include <optional>

namespace troupe::kernels::cudnn {

/// Launch (i, j), with i < `sequences` and j < `groups`, computes `problem` with all pointers moved
/// by offsets_of. All launches have the same number of heads.
struct attention_split {
  attention_problem problem;
  std::int64_t sequences = 1, groups = 1;
};

/// Workspace limit for dq's sum in one backward launch, in bytes: ds of 32 heads of 4096 tokens.
inline constexpr std::int64_t backward_workspace = std::int64_t{1} << 30;

/// Architecture and cuDNN version: they determine which kernels exist.
struct device_kind {
  int major;            ///< compute capability
  std::size_t version;  ///< from cudnnGetVersion
};

/// Whether cuDNN can express the operation: uniform sequences, a supported head size, every query
/// sees a key, and no dropout, because cuDNN's mask would depend on the layout. Our graphs have
/// values with the head size and strides of keys.
bool sayable(const attention_shape& a, const device_kind& on, bool backward);

/// Whether cuDNN offers dq_sum::in_order.
bool sums_in_order(const device_kind& on);

/// How a `sayable` backward pass sums dq: in any order if its bits may differ between runs,
/// otherwise usual_dq_sum.
std::optional<dq_sum> dq_sum_for(const attention_shape& a,
                                 const device_kind& on,
                                 std::int64_t workspace = backward_workspace);

/// The deterministic way to sum dq: at once, which is faster, if one group of one sequence fits;
/// otherwise in order. Empty if that is not available either.
std::optional<dq_sum> usual_dq_sum(const attention_shape& a,
                                   const device_kind& on,
                                   std::int64_t workspace = backward_workspace);

/// The shape must be `sayable`.
attention_split forward_split(const attention_shape& a, bool half);
attention_split backward_split(const attention_shape& a,
                               bool half,
                               dq_sum sum,
                               std::int64_t workspace = backward_workspace);

/// Offsets in elements from the pointers of the first launch to those of launch (i, j).
struct attention_offsets {
  std::int64_t q, k, o, lse;
};
attention_offsets offsets_of(const attention_shape& a,
                             const attention_split& split,
                             std::int64_t i,
                             std::int64_t j);

}  // namespace troupe::kernels::cudnn
