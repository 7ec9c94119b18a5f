// Digests of arrays, taken where they lie (kernels/op/fingerprint.hpp).

#pragma once

#include "kernels/op/fingerprint.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/tensor/reads.hpp"

#include <vector>

namespace troupe::runtime {

using fingerprint_piece = kernels::fingerprint<float>::piece;

/// One for each piece, cut in grains of so many words.
void read_fingerprints(reads& by,
                       const std::vector<fingerprint_piece>& pieces,
                       std::int64_t grain,
                       std::function<void(const std::vector<digest>&)> then);

/// The same of (pieces, 2) fingerprints that an operation has left in `results`.
void read_fingerprints(reads& by,
                       const tensor& results,
                       std::function<void(const std::vector<digest>&)> then);

/// The words that a fingerprint of so many elements is of: all of them (DIGEST-1).
std::int64_t words_of(dtype type, std::int64_t elements);

}  // namespace troupe::runtime
