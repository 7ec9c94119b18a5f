// Hashes: XXH3 for speed (state digests, keys of names), SHA-256 for files that must be trusted.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// XXH3, 64 bits.
std::uint64_t hash64(const void* data, std::size_t size);
inline std::uint64_t hash64(std::string_view text) {
  return hash64(text.data(), text.size());
}

/// A 128-bit fingerprint of a state. Equal digests mean equal bits, up to chance (2^-128).
struct digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  /// Adds modulo 2^128. Digests of parts, each of which includes its position, add up to a digest
  /// of the whole in any order. Detects mistakes, not attacks. Bellare, Micciancio: "A New Paradigm
  /// for Collision-Free Hashing", 1997 (AdHash).
  digest& operator+=(const digest& x) {
    low += x.low;
    high += x.high + (low < x.low ? 1 : 0);
    return *this;
  }

  friend bool operator==(const digest&, const digest&) = default;
};

/// Incremental XXH3, 128 bits.
class digester {
 public:
  digester();
  ~digester();
  digester(const digester&) = delete;
  digester& operator=(const digester&) = delete;

  digester& add(const void* data, std::size_t size);
  digester& add(std::string_view text) { return add(text.data(), text.size()); }
  digester& add(const digest& x) { return add(&x, sizeof x); }
  digest result() const;

 private:
  void* state_;
};

/// 32 hexadecimal digits.
std::string to_string(const digest& x);

/// Incremental SHA-256. Call `hex` once.
class sha256 {
 public:
  sha256();
  ~sha256();
  sha256(const sha256&) = delete;
  sha256& operator=(const sha256&) = delete;

  void add(const void* data, std::size_t size);
  std::string hex();  ///< 64 hexadecimal digits

 private:
  void* context_ = nullptr;
};

}  // namespace troupe::runtime
