// Checks a state outside its estate against its sealed digests. A receiver or reader has only the
// arrays and computes the fingerprints of their grains again.

#pragma once

#include "runtime/state/rank_estate.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace troupe::runtime {

/// Digests of the arrays, which are in host memory; computed on this thread.
/// STATE-1: each part says which arrays its digests cover.
state_digests digests_of(const rank_state& x);

/// A parameter with other bytes than those that were sealed; empty: none.
std::string damaged_parameter(const rank_state& x);

/// Fault injection: flips one bit of an array that the digests cover, in a private copy of the
/// array. `key` selects parameter, array and element.
void flip_bit(rank_state& x, std::uint64_t key);

/// The first name at which two maps of digests differ; empty: none.
template <class Digests>
std::string first_difference(const Digests& a, const Digests& b) {
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (x == a.end() && y == b.end())
    return {};
  return x == a.end() ? y->first : y == b.end() ? x->first : std::min(x->first, y->first);
}

}  // namespace troupe::runtime
