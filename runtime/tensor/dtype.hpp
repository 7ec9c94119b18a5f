#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe::runtime {

enum class dtype : std::uint8_t { f32, bf16, i32, u64 };

constexpr std::size_t size_of(dtype x) {
  return x == dtype::u64 ? 8 : x == dtype::bf16 ? 2 : 4;
}

constexpr std::string_view to_string(dtype x) {
  switch (x) {
    case dtype::f32:
      return "f32";
    case dtype::bf16:
      return "bf16";
    case dtype::i32:
      return "i32";
    case dtype::u64:
      return "u64";
  }
  return "dtype(?)";
}

/// The dtype of a C++ element type.
template <class T>
constexpr dtype dtype_of();
template <>
constexpr dtype dtype_of<float>() {
  return dtype::f32;
}
template <>
constexpr dtype dtype_of<std::int32_t>() {
  return dtype::i32;
}
template <>
constexpr dtype dtype_of<std::uint64_t>() {
  return dtype::u64;
}

}  // namespace troupe::runtime
