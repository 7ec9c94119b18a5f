// Element types of tensors: their sizes, names and C++ types.

#pragma once

#include "kernels/op/bf16.hpp"
#include "kernels/op/f16.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe::runtime {

enum class dtype : std::uint8_t { f32, bf16, f16, i32, u64, f64 };

constexpr std::size_t size_of(dtype x) {
  return x == dtype::u64 || x == dtype::f64 ? 8 : x == dtype::bf16 || x == dtype::f16 ? 2 : 4;
}

constexpr std::string_view to_string(dtype x) {
  switch (x) {
    case dtype::f32:
      return "f32";
    case dtype::bf16:
      return "bf16";
    case dtype::f16:
      return "f16";
    case dtype::i32:
      return "i32";
    case dtype::u64:
      return "u64";
    case dtype::f64:
      return "f64";
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
constexpr dtype dtype_of<kernels::bf16>() {
  return dtype::bf16;
}
template <>
constexpr dtype dtype_of<kernels::f16>() {
  return dtype::f16;
}
template <>
constexpr dtype dtype_of<std::int32_t>() {
  return dtype::i32;
}
template <>
constexpr dtype dtype_of<std::uint64_t>() {
  return dtype::u64;
}
template <>
constexpr dtype dtype_of<double>() {
  return dtype::f64;
}

/// Calls visit(T{}) with the element type of activations: float, bf16 or f16.
template <class Visit>
decltype(auto) with_element(dtype x, Visit&& visit) {
  if (x == dtype::bf16)
    return visit(kernels::bf16());
  if (x == dtype::f16)
    return visit(kernels::f16());
  return visit(float());
}

}  // namespace troupe::runtime
