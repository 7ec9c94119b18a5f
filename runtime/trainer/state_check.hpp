// A state outside its estate, held to the digests that it was sealed with: whoever receives or
// reads one has only its arrays, and takes the fingerprints of their grains again.

#pragma once

#include "runtime/trainer/rank_estate.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace troupe::runtime {

/// Of its arrays, which lie in host memory; on this thread. Throws copies_differ. STATE-1: each
/// part says which of its arrays the digests are of.
state_digests digests_of(const rank_state& x);

/// A parameter of which the arrays are not those that were sealed; empty: there is none.
std::string damaged_parameter(const rank_state& x);

/// One bit of an array that the digests are of is another, in a copy of that array: others may have
/// it, too. `key` chooses parameter, array and element. To show what follows.
void flip_bit(rank_state& x, std::uint64_t key);

/// The first name under which two states differ; empty: none.
std::string first_difference(const std::map<std::string, digest>& a,
                             const std::map<std::string, digest>& b);

}  // namespace troupe::runtime
