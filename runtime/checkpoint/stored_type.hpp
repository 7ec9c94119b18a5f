// Types of elements in files. More than a tensor in memory can have: a file may come from anywhere.

#pragma once

#include "runtime/tensor/dtype.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace troupe::runtime {

enum class stored_type : std::uint8_t {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  f64,
  i64,
  u64
};

constexpr stored_type stored(dtype x) {
  switch (x) {
    case dtype::f32:
      return stored_type::f32;
    case dtype::bf16:
      return stored_type::bf16;
    case dtype::f16:
      return stored_type::f16;
    case dtype::i32:
      return stored_type::i32;
    case dtype::u64:
    case dtype::f64:
      return stored_type::u64;
  }
  return stored_type::u8;
}

/// Bytes of one element.
std::size_t size_of(stored_type x);

/// As safetensors spell it, e.g. "F32", "BF16"; and back.
std::string_view to_string(stored_type x);
std::optional<stored_type> stored_type_from(std::string_view name);

/// Whether `to_f32` takes it: F32, F16 and BF16, whose values floats hold exactly.
constexpr bool is_readable_as_f32(stored_type x) {
  return x == stored_type::f32 || x == stored_type::f16 || x == stored_type::bf16;
}

/// Little-endian elements to floats, value by value; NaN stays NaN. `in` needs no alignment and has
/// out.size() elements of a type that is_readable_as_f32.
void to_f32(stored_type type, const std::byte* in, std::span<float> out);

}  // namespace troupe::runtime
