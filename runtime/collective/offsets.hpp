// Where the part of a rank lies in a buffer that is cut among ranks (communicator::offsets).

#pragma once

#include "runtime/collective/communicator.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe::runtime {

inline const std::byte* at(const void* from, std::int64_t bytes) {
  return static_cast<const std::byte*>(from) + bytes;
}
inline std::byte* at(void* from, std::int64_t bytes) {
  return static_cast<std::byte*>(from) + bytes;
}

/// In elements, or whatever `ends` counts.
inline std::int64_t begin_of(communicator::offsets ends, int rank) {
  return rank == 0 ? 0 : ends[std::size_t(rank - 1)];
}

}  // namespace troupe::runtime
