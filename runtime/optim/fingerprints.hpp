// Fingerprints of arrays, computed on their device (kernels/op/fingerprint.hpp).

#pragma once

#include "kernels/op/fingerprint.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/tensor/reads.hpp"

#include <vector>

namespace troupe::runtime {

using fingerprint_piece = kernels::fingerprint<float>::piece;

/// Reads one fingerprint per piece; pieces are divided into grains of the given number of words.
void read_fingerprints(reads& by,
                       const std::vector<fingerprint_piece>& pieces,
                       std::int64_t grain,
                       std::function<void(const std::vector<digest>&)> then);

/// Reads fingerprints (pieces, 2) that an operation has already written to `results`.
void read_fingerprints(reads& by,
                       const tensor& results,
                       std::function<void(const std::vector<digest>&)> then);

/// Returns the number of words that a fingerprint of these elements covers: all of them (DIGEST-1).
std::int64_t words_of(dtype type, std::int64_t elements);

}  // namespace troupe::runtime
