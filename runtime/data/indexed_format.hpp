// The layout of the .idx file, for its reader and its writers only.

#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace troupe::runtime::indexed_format {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

inline constexpr std::array<char, 9> magic = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
inline constexpr std::uint64_t version = 1;

inline constexpr std::size_t version_at = 9;
inline constexpr std::size_t type_at = 17;
inline constexpr std::size_t sequence_count_at = 18;
inline constexpr std::size_t document_count_at = 26;  ///< number of document indices
inline constexpr std::size_t lengths_at = 34;         ///< int32 each, so not aligned

}  // namespace troupe::runtime::indexed_format
