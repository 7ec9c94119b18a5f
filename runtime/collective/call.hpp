// Describes the collective operation that a rank calls, to check that all ranks call the same.

#pragma once

#include "runtime/collective/communicator.hpp"

#include <string>

namespace troupe::runtime {

/// Each transport creates it with the functions below.
struct collective_call {
  const char* what = "";
  std::int64_t elements = 0;  ///< must be equal on all ranks, like the next three
  int detail = 0;             ///< dtype of a sum, root of a broadcast
  std::size_t parts = 0;      ///< arrays per rank
  communicator::offsets ends = {};
  bool cuts_are_own = false;  ///< `ends` may differ between ranks

  static collective_call barrier() { return {.what = "barrier"}; }
  static collective_call all_reduce_sum(dtype type, std::size_t parts, std::int64_t n) {
    return {.what = "all_reduce_sum", .elements = n, .detail = int(type), .parts = parts};
  }
  static collective_call reduce_scatter_sum(dtype type,
                                            std::size_t parts,
                                            communicator::offsets ends) {
    return {.what = "reduce_scatter_sum",
            .elements = ends.back(),
            .detail = int(type),
            .parts = parts,
            .ends = ends};
  }
  static collective_call all_gather(communicator::offsets ends) {
    return {.what = "all_gather", .elements = ends.back(), .parts = 1, .ends = ends};
  }
  static collective_call all_to_all(communicator::offsets from_ends) {
    return {.what = "all_to_all", .parts = 1, .ends = from_ends, .cuts_are_own = true};
  }
  static collective_call broadcast(std::int64_t bytes, int root) {
    return {.what = "broadcast", .elements = bytes, .detail = root, .parts = 1};
  }
  static collective_call split() { return {.what = "split"}; }
};

/// COLLECTIVE-1: empty if both calls agree, otherwise a description of the difference.
std::string disagreement(
    axis_set along, int rank_a, const collective_call& a, int rank_b, const collective_call& b);

}  // namespace troupe::runtime
