// Passes that are computed again, elsewhere, and compared to the bit: which, and by whom.
//
// A pure function of the step and of what a pass is: all ranks agree on it without a message.

#pragma once

#include "runtime/core/ids.hpp"

#include <cstdint>

namespace troupe::runtime {

/// A pass of one step: the forward and the input gradient of a micro-batch, by a replica's workers
/// of one chunk.
struct verifiable_pass {
  int replica = 0;  ///< physical
  chunk_id chunk = {};
  microbatch_id microbatch = {};  ///< counts those of the replica
};

/// Whether it is of the share that is computed again.
bool is_verified(double fraction, std::uint64_t seed, step_id step, const verifiable_pass& x);

/// The replica that does. Where there is only one it does so itself.
int verifier_of(int replica, int replicas);
/// Whose passes a replica computes again.
int verified_by(int replica, int replicas);

}  // namespace troupe::runtime
