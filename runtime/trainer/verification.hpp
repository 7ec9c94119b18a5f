// Passes that are computed again, elsewhere, and compared to the bit: which, and by whom.
//
// A pure function of the step and of what a pass is: all ranks agree on it without a message.

#pragma once

#include "runtime/core/ids.hpp"

#include <cstdint>

namespace troupe::runtime {

/// A pass of one step: the forward of a micro-batch, and all of its backward, by a replica's
/// workers of one chunk.
struct verifiable_pass {
  int replica = 0;  ///< physical
  chunk_id chunk = {};
  microbatch_id microbatch = {};  ///< counts those of the replica, or of a copy of its model
  copy_id copy = {};
};

/// Whether it is of the share that is computed again.
bool is_verified(double fraction, std::uint64_t seed, step_id step, const verifiable_pass& x);

/// Of the passes of a chunk in a step, by one replica: so many are computed again, and so many of
/// these follow one that is not: what they add to has to be copied, where the plan adds
/// micro-batches in ascending order.
struct verified_passes {
  int all = 0, copied = 0;
};
/// `each`: micro-batches of one logical replica or copy, `microbatches` those of all that are
/// played in turn.
verified_passes count_verified(double fraction,
                               std::uint64_t seed,
                               step_id step,
                               const verifiable_pass& of,
                               int microbatches,
                               int each);

/// The replica that does. Where there is only one it does so itself.
int verifier_of(int replica, int replicas);
/// Whose passes a replica computes again.
int verified_by(int replica, int replicas);

}  // namespace troupe::runtime
