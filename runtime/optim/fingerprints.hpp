// Digests of arrays, taken where they lie (kernels/op/fingerprint.hpp).

#pragma once

#include "runtime/core/hash.hpp"
#include "runtime/tensor/moves.hpp"

#include <vector>

namespace troupe::runtime {

/// One for each piece. Waits until the stream has come so far.
std::vector<digest> fingerprints_of(stream& on,
                                    const std::vector<kernels::fingerprint<float>::piece>& pieces);

}  // namespace troupe::runtime
