// Fingerprints of arrays of 32-bit words: what two states have alike is found by comparing 128
// bits.
//
// With words w, taken in pairs (a missing last one is 0), and key k of the array:
//
//   f_j = sum_i ((w[2i] + lo(k_j(i))) mod 2^32) * ((w[2i+1] + hi(k_j(i))) mod 2^32)     mod 2^64
//   k_j(i) = k * m_j + (i + 1) * c_j                     j = 0, 1        all modulo 2^64
//
// NH of UMAC (Black et al., 1999; RFC 4418) with counted instead of random keys: against mistakes,
// not against an adversary. Integer sums have no order, so any backend, split or number of threads
// gives the same; the key says which array it is, so that fingerprints of parts can be added.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct fingerprint {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  struct piece {
    const void* x;  ///< (n) words, aligned to 4 bytes
    std::int64_t n;
    std::uint64_t key;
  };
  std::uint64_t* results;  ///< (count, 2) written
  const piece* pieces;     ///< (count) host
  std::int64_t count;
};

struct fingerprint_key {
  std::uint64_t base, step;

  constexpr std::uint64_t at(std::uint64_t pair) const { return base + (pair + 1) * step; }
};
constexpr fingerprint_key fingerprint_key_of(std::uint64_t key, int j) {
  return j == 0 ? fingerprint_key{key * 0x9FB21C651E98DF25u, 0x9E3779B97F4A7C15u}
                : fingerprint_key{key * 0xD6E8FEB86659FD93u, 0xC2B2AE3D27D4EB4Fu};
}
/// What one pair of words adds.
constexpr std::uint64_t fingerprint_term(std::uint32_t low, std::uint32_t high, std::uint64_t k) {
  return std::uint64_t{low + std::uint32_t(k)} * std::uint64_t{high + std::uint32_t(k >> 32)};
}

template <class T>
constexpr std::int64_t flops(const fingerprint<T>&) {
  return 0;
}
template <class T>
constexpr std::int64_t bytes_moved(const fingerprint<T>& op) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < op.count; ++i)
    sum += 4 * op.pieces[i].n;
  return sum;
}

}  // namespace troupe::kernels
