// Selects the passes that another replica computes again for a bit-by-bit comparison.
//
// The choice is a pure function of the step and the pass, so all ranks agree without messages.

#pragma once

#include "runtime/core/ids.hpp"

#include <cstdint>

namespace troupe::runtime {

/// One pass of a step: forward and backward of one micro-batch through one chunk of a replica.
struct verifiable_pass {
  int replica = 0;  ///< physical replica
  int span = 1;     ///< replicas that compute passes together: see seats::span
  chunk_id chunk = {};
  microbatch_id microbatch = {};  ///< number within the replica, or within a copy of its model
  copy_id copy = {};
};

/// True if the pass is computed again. VERIFY-4: replicas that exchange rows of experts compute
/// again together. All of them select the same passes, and verify those of one other group in one
/// order.
bool is_verified(double fraction, std::uint64_t seed, step_id step, const verifiable_pass& x);

/// Counts for the passes of one chunk in a step, on one replica. `all`: passes that are computed
/// again. `copied`: passes of these that follow a pass that is not computed again. The gradients
/// that they add to must be copied if the plan adds micro-batches in ascending order.
struct verified_passes {
  int all = 0, copied = 0;
};
/// `each`: micro-batches of one logical replica or copy. `microbatches`: of all that are computed
/// in turn.
verified_passes count_verified(double fraction,
                               std::uint64_t seed,
                               step_id step,
                               const verifiable_pass& of,
                               int microbatches,
                               int each);

/// The replica that computes passes of `replica` again, in the next group of `span` replicas. A
/// single group verifies itself.
int verifier_of(int replica, int replicas, int span);
/// The inverse of verifier_of: the replica to verify.
int verified_by(int replica, int replicas, int span);

}  // namespace troupe::runtime
