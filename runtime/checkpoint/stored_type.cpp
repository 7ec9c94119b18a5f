#include "runtime/checkpoint/stored_type.hpp"

#include "runtime/core/error.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace troupe::runtime {
namespace {

static_assert(std::endian::native == std::endian::little,
              "files are little-endian, so the machine must be, too");

struct description {
  stored_type type;
  std::string_view name;
  std::size_t size;
};

constexpr description known[] = {
    {stored_type::boolean, "BOOL", 1},
    {stored_type::u8, "U8", 1},
    {stored_type::i8, "I8", 1},
    {stored_type::f8_e5m2, "F8_E5M2", 1},
    {stored_type::f8_e4m3, "F8_E4M3", 1},
    {stored_type::i16, "I16", 2},
    {stored_type::u16, "U16", 2},
    {stored_type::f16, "F16", 2},
    {stored_type::bf16, "BF16", 2},
    {stored_type::i32, "I32", 4},
    {stored_type::u32, "U32", 4},
    {stored_type::f32, "F32", 4},
    {stored_type::f64, "F64", 8},
    {stored_type::i64, "I64", 8},
    {stored_type::u64, "U64", 8},
};

const description& describe(stored_type x) {
  for (const auto& one : known)
    if (one.type == x)
      return one;
  throw broken_promise("STORED-1: every stored type is described");
}

std::uint16_t load16(const std::byte* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

float f32_of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t(bits) << 16);
}

float f32_of_f16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t(bits & 0x8000) << 16;
  const std::uint32_t exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent == 31)  // infinity and NaN
    return std::bit_cast<float>(sign | 0x7f800000 | (fraction << 13));
  if (exponent == 0) {  // zero and subnormal numbers, which are normal as floats
    const float magnitude = std::ldexp(float(fraction), -24);
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

}  // namespace

std::size_t size_of(stored_type x) {
  return describe(x).size;
}

std::string_view to_string(stored_type x) {
  return describe(x).name;
}

std::optional<stored_type> stored_type_from(std::string_view name) {
  for (const auto& one : known)
    if (one.name == name)
      return one.type;
  return std::nullopt;
}

void to_f32(stored_type type, const std::byte* in, std::span<float> out) {
  ensure(is_readable_as_f32(type), "STORED-2: only F32, F16 and BF16 are read as floats");
  if (type == stored_type::f32) {
    if (!out.empty())
      std::memcpy(out.data(), in, out.size_bytes());
    return;
  }
  const auto convert = type == stored_type::bf16 ? f32_of_bf16 : f32_of_f16;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = convert(load16(in + 2 * i));
}

}  // namespace troupe::runtime
