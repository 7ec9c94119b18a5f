// What a rank comes to its group for, so that the ranks can be compared.

#pragma once

#include "runtime/collective/communicator.hpp"

#include <string>

namespace troupe::runtime {

struct collective_call {
  const char* what = "";      ///< the operation
  std::int64_t elements = 0;  ///< this and the next three must be the same everywhere
  int detail = 0;             ///< of sums the dtype, of a broadcast the root
  std::size_t parts = 0;
  communicator::offsets ends = {};
  bool cuts_are_own = false;  ///< each rank may have other ends
};

/// COLLECTIVE-1: empty where both have come for the same, otherwise what they have come for.
std::string disagreement(
    axis along, int rank_a, const collective_call& a, int rank_b, const collective_call& b);

}  // namespace troupe::runtime
