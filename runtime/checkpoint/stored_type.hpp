// Element types in safetensors files. They are more than the types of tensors in memory, because
// other programs may have written the file.

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

/// Converts between a type and its safetensors name, such as "F32" or "BF16".
std::string_view to_string(stored_type x);
std::optional<stored_type> stored_type_from(std::string_view name);

/// True for the types that to_f32 accepts: F32, F16 and BF16. Floats represent their values
/// exactly.
constexpr bool is_readable_as_f32(stored_type x) {
  return x == stored_type::f32 || x == stored_type::f16 || x == stored_type::bf16;
}

/// Converts little-endian elements to floats; NaN stays NaN. `in` may be unaligned and has
/// out.size() elements of a type that is_readable_as_f32.
void to_f32(stored_type type, const std::byte* in, std::span<float> out);

}  // namespace troupe::runtime
