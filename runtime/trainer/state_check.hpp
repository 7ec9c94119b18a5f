// A state outside its estate, held to the digests that it was sealed with: whoever receives or
// reads one has only its arrays, and takes the fingerprints of their grains again.

#pragma once

#include "runtime/trainer/rank_estate.hpp"

#include <map>
#include <string>

namespace troupe::runtime {

/// Of its arrays, which lie in host memory; on this thread. Throws copies_differ. STATE-1: each
/// part says which of its arrays the digests are of.
state_digests digests_of(const rank_state& x);

/// A parameter of which the arrays are not those that were sealed; empty: there is none.
std::string damaged_parameter(const rank_state& x);

/// The first name under which two states differ; empty: none.
std::string first_difference(const std::map<std::string, digest>& a,
                             const std::map<std::string, digest>& b);

}  // namespace troupe::runtime
