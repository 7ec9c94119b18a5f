// What a rank comes to its group for, so that the ranks can be compared.

#pragma once

#include "runtime/collective/communicator.hpp"

#include <string>

namespace troupe::runtime {

/// Each transport describes the operations of a communicator by the functions below.
struct collective_call {
  const char* what = "";      ///< the operation
  std::int64_t elements = 0;  ///< this and the next three must be the same everywhere
  int detail = 0;             ///< of sums the dtype, of a broadcast the root
  std::size_t parts = 0;      ///< arrays that each rank gives
  communicator::offsets ends = {};
  bool cuts_are_own = false;  ///< each rank may have other ends

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

/// COLLECTIVE-1: empty where both have come for the same, otherwise what they have come for.
std::string disagreement(
    axis along, int rank_a, const collective_call& a, int rank_b, const collective_call& b);

}  // namespace troupe::runtime
