// Placement: the process of each rank, the host of each process, and the keeper of its state. The
// launcher, the dry run and `troupe layout` use the same functions.
//
//   PLACE-1  Each rank is in one process, and each process on one host: hosts fill in their order,
//            up to their slots. Later hosts are spares.
//   PLACE-2  Tensor peers share a host, if each host has a multiple of them. Processes have equal
//            numbers of ranks then.
//   PLACE-3  Keepers stand in other failure domains (keepers.hpp).
//
// Ties are decided by number: equal input gives equal output.

#pragma once

#include "runtime/layout/keepers.hpp"
#include "runtime/layout/mesh.hpp"
#include "runtime/layout/process_map.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

struct host_slots {
  std::string name;
  int slots = 1;            ///< processes that start there
  std::string domain = {};  ///< failure domain, such as a rack; empty: the host alone
};

/// PLACE-2: contiguous ranges of the list of tensor groups. In Megatron-LM's rank orders these are
/// ranges of ranks; expert and context peers are neighbours in them, then data peers.
process_map near_ranks(const mesh& dense, int processes);

/// The index of each process's host. Hosts of one failure domain follow each other, so that
/// neighbours in the rank order are near. Breaks PLACE-1 if the hosts have too few slots.
std::vector<int> hosts_of_processes(int processes, const std::vector<host_slots>& hosts);

struct process_placement {
  process_map ranks;
  std::vector<int> host_of;    ///< by process: index of its host
  std::vector<int> keeper_of;  ///< by process; empty for one process
};
/// Throws like hosts_of_processes.
process_placement placement_of(process_map ranks, const std::vector<host_slots>& hosts);

/// The groups along an axis, by the hosts of their members.
struct host_span {
  axis along = axis::tensor;
  int groups = 0, crossing = 0;  ///< all, and those with members on several hosts
  int most_hosts = 1;            ///< of one group
  std::vector<int> first = {};   ///< the first crossing group; empty: none crosses
};
/// One entry for each axis of `of` with several ranks. Hosts of one name are one host.
std::vector<host_span> spans_of(const mesh& of,
                                const process_placement& placed,
                                const std::vector<host_slots>& hosts);

}  // namespace troupe::runtime
