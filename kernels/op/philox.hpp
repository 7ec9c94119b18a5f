// Counter-based random numbers: Philox4x32-10. A number is a pure function of (key, counter),
// without state, so it is the same on every device and in every layout.
//
// Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.

#pragma once

#include <array>
#include <cstdint>

namespace troupe::kernels {

using philox_counter = std::array<std::uint32_t, 4>;

constexpr philox_counter philox(std::uint64_t key, philox_counter c) {
  auto k0 = std::uint32_t(key), k1 = std::uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {std::uint32_t(p1 >> 32) ^ c[1] ^ k0,
         std::uint32_t(p1),
         std::uint32_t(p0 >> 32) ^ c[3] ^ k1,
         std::uint32_t(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// Counter of the block with the words 4 * block to 4 * block + 3 of a stream.
constexpr philox_counter philox_block(std::uint64_t stream, std::uint64_t block) {
  return {std::uint32_t(block),
          std::uint32_t(block >> 32),
          std::uint32_t(stream),
          std::uint32_t(stream >> 32)};
}

/// Random word `index` of a stream.
constexpr std::uint32_t philox_word(std::uint64_t key, std::uint64_t stream, std::uint64_t index) {
  return philox(key, philox_block(stream, index / 4))[index % 4];
}

/// Words below this are dropped: P(word < threshold) = p, to 2^-32. Requires 0 <= p < 1.
constexpr std::uint32_t drop_threshold(float p) {
  return std::uint32_t(double(p) * 4294967296.0);
}

}  // namespace troupe::kernels
