// The element types of GGUF files: plain floats, and blocks of quantised ones. The layouts are
// those of ggml (docs/formats/gguf.md). Little-endian.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// The values are those in the files.
enum class block_type : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q8_0 = 8,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  bf16 = 30
};

struct block_format {
  block_type type;
  std::string_view name;  ///< such as "Q4_K"
  std::int64_t elements;  ///< of a block
  std::size_t bytes;      ///< of a block
};

/// Returns null for a type that is not read.
const block_format* find_block_format(std::uint32_t type);
const block_format& format_of(block_type type);
/// "F32, F16, ...": all types that are read.
std::string block_format_names();

/// Converts whole blocks to floats. `in` may be unaligned.
void dequantise(block_type type, const std::byte* in, std::span<float> out);

/// Rounds floats to whole blocks, each to nearest. Q5_K and Q6_K are only read. Throws input_error,
/// beginning with `what`, for a number that is not finite or beyond the type.
void quantise(block_type type, std::span<const float> in, std::byte* out, const std::string& what);

}  // namespace troupe::runtime
