// Offsets of ranks' cuts in a buffer (communicator::offsets).

#pragma once

#include "runtime/collective/communicator.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::runtime {

inline const std::byte* at(const void* from, std::int64_t bytes) {
  return static_cast<const std::byte*>(from) + bytes;
}
inline std::byte* at(void* from, std::int64_t bytes) {
  return static_cast<std::byte*>(from) + bytes;
}

/// Results are in the unit of `ends`.
inline std::int64_t begin_of(communicator::offsets ends, int rank) {
  return rank == 0 ? 0 : ends[std::size_t(rank - 1)];
}
inline std::int64_t size_of_cut(communicator::offsets ends, int rank) {
  return ends[std::size_t(rank)] - begin_of(ends, rank);
}

/// Ends of the cuts that ranks sum in an all-reduce. Cuts are whole cache lines of 64 bytes (f32),
/// so that two ranks never write the same line.
inline std::vector<std::int64_t> slices(std::int64_t n, int size) {
  const auto each = (n / size + 15) / 16 * 16;
  std::vector<std::int64_t> out;
  for (int r = 1; r < size; ++r)
    out.push_back(std::min(n, each * r));
  out.push_back(n);
  return out;
}

inline void copy_unless_same(stream& stream, void* to, const void* from, std::int64_t bytes) {
  if (to != from && bytes > 0)
    stream.copy(to, from, std::size_t(bytes));
}

}  // namespace troupe::runtime
