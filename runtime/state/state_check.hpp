// Checks a state outside its estate against its sealed digests. A receiver or reader has only the
// arrays and computes the fingerprints of their grains again.

#pragma once

#include "runtime/state/rank_estate.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace troupe::runtime {

/// Digests of the arrays, which are in host memory; computed on this thread. Throws copies_differ.
/// STATE-1: each part says which arrays its digests cover.
state_digests digests_of(const rank_state& x);

/// A parameter with other bytes than those that were sealed; empty: none.
std::string damaged_parameter(const rank_state& x);

/// Fault injection: flips one bit of an array that the digests cover, in a private copy of the
/// array. `key` selects parameter, array and element.
void flip_bit(rank_state& x, std::uint64_t key);

/// The first name at which two states differ; empty: none.
std::string first_difference(const std::map<std::string, digest>& a,
                             const std::map<std::string, digest>& b);

}  // namespace troupe::runtime
