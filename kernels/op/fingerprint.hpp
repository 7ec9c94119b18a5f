// Fingerprints of arrays of 32-bit words: comparing 128 bits compares two states.
//
// With words w, taken in pairs (an odd last word is paired with 0), and key k of the array:
//
//   f_j = sum_i ((w[2i] + lo(k_j(i))) mod 2^32) * ((w[2i+1] + hi(k_j(i))) mod 2^32)     mod 2^64
//   k_j(i) = k * m_j + (i + 1) * c_j                     j = 0, 1        all modulo 2^64
//
// This is NH of UMAC (Black et al., 1999; RFC 4418) with counted instead of random keys. It detects
// errors, not attacks. Integer sums are independent of order, so every backend, split and thread
// count gives the same result. The key identifies the array, so fingerprints of different parts can
// be added.
//
// An array is divided into grains. Each grain has its own key, and i counts from its start. The
// fingerprint of the array is the sum over its grains as 128-bit numbers, f_0 above f_1, modulo
// 2^128.

#pragma once

#include "kernels/op/grain.hpp"

namespace troupe::kernels {

template <class T>
struct fingerprint {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  struct piece {
    const void* x;  ///< (n) words, aligned to 4 bytes
    std::int64_t n;
    const std::uint64_t* keys;  ///< (grains_in(n, grain))
  };
  std::uint64_t* results;  ///< (count, 2) written: upper half, lower half
  const piece* pieces;     ///< (count) host
  std::int64_t count;
  std::int64_t grain;  ///< in words; at least 1
};

/// Fingerprints of an operation's results, computed in the same pass; each array has n words.
struct written_fingerprints {
  std::uint64_t* results = nullptr;     ///< (arrays, 2) written; or null
  const std::uint64_t* keys = nullptr;  ///< (arrays, grains_in(n, grain))
  std::int64_t grain = 0;               ///< in words; at least 1 if `results` is set
};

struct fingerprint_sum {
  std::uint64_t high, low;

  constexpr void add(std::uint64_t more_high, std::uint64_t more_low) {
    low += more_low;
    high += more_high + (low < more_low ? 1 : 0);
  }
};

struct fingerprint_key {
  std::uint64_t base, step;

  constexpr std::uint64_t at(std::uint64_t pair) const { return base + (pair + 1) * step; }
};
constexpr fingerprint_key fingerprint_key_of(std::uint64_t key, int j) {
  return j == 0 ? fingerprint_key{key * 0x9FB21C651E98DF25u, 0x9E3779B97F4A7C15u}
                : fingerprint_key{key * 0xD6E8FEB86659FD93u, 0xC2B2AE3D27D4EB4Fu};
}
/// The contribution of one pair of words.
constexpr std::uint64_t fingerprint_term(std::uint32_t low, std::uint32_t high, std::uint64_t k) {
  return std::uint64_t{low + std::uint32_t(k)} * std::uint64_t{high + std::uint32_t(k >> 32)};
}

template <class T>
constexpr std::int64_t flops(const fingerprint<T>&) {
  return 0;
}
template <class T>
constexpr std::int64_t bytes_moved(const fingerprint<T>& op) {
  return 4 * elements_of(op);
}

}  // namespace troupe::kernels
