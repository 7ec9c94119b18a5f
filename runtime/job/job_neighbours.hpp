// The neighbours of each process: the processes with which it exchanges messages or tensors.
//
// They follow from the layout, the keepers and the tree of processes. A process connects with its
// neighbours only. Each is also connected with the supervisor's process, which is not counted here.

#pragma once

#include "runtime/job/job_seats.hpp"

#include <utility>
#include <vector>

namespace troupe::runtime {

/// The neighbours of each process, ascending. Symmetric.
using process_neighbours = std::vector<std::vector<int>>;

/// Those of the layout:
///   groups     the members of a group read each other's arrays
///   pipeline   a chunk exchanges activations and gradients with the one before and the one after
///   followers  the first rank of a stage tells the others its choices
///   replicas   a replica's actor, in the process of its first rank, and the replica's other ranks
process_neighbours neighbours_of(const job_pipeline& pipeline,
                                 const seats& all,
                                 const process_map& placed);

/// Adds pairs of processes that have other reasons to exchange messages; ignores equal ends.
process_neighbours with_pairs(process_neighbours of, const std::vector<std::pair<int, int>>& pairs);

}  // namespace troupe::runtime
