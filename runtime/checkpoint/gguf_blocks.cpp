#include "runtime/checkpoint/gguf_blocks.hpp"

#include "kernels/op/bf16.hpp"
#include "kernels/op/f16.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace troupe::runtime {
namespace {

using kernels::bf16;
using kernels::f16;

constexpr std::int64_t large_block = 256, small_block = 32;
constexpr int sub_blocks = 8;

constexpr block_format block_formats[] = {{block_type::f32, "F32", 1, 4},
                                          {block_type::f16, "F16", 1, 2},
                                          {block_type::bf16, "BF16", 1, 2},
                                          {block_type::q4_0, "Q4_0", small_block, 18},
                                          {block_type::q8_0, "Q8_0", small_block, 34},
                                          {block_type::q4_k, "Q4_K", large_block, 144},
                                          {block_type::q5_k, "Q5_K", large_block, 176},
                                          {block_type::q6_k, "Q6_K", large_block, 210}};

template <class T>
T load(const std::byte* at) {
  T x;
  std::memcpy(&x, at, sizeof x);
  return x;
}

template <class T>
void store(std::byte* at, T x) {
  std::memcpy(at, &x, sizeof x);
}

int byte_at(const std::byte* at, std::int64_t i) {
  return std::to_integer<int>(at[i]);
}

void from_q4_0(const std::byte* in, float* out) {
  const auto d = float(load<f16>(in));
  for (int i = 0; i < 16; ++i) {
    const int both = byte_at(in, 2 + i);
    out[i] = d * float((both & 15) - 8);
    out[i + 16] = d * float((both >> 4) - 8);
  }
}

void from_q8_0(const std::byte* in, float* out) {
  const auto d = float(load<f16>(in));
  for (int i = 0; i < small_block; ++i)
    out[i] = d * float(load<std::int8_t>(in + 2 + i));
}

/// Scale and minimum of a sub-block: six bits each, in twelve bytes for the eight.
struct scale_and_minimum {
  int scale, minimum;
};

scale_and_minimum unpacked_scale(const std::byte* in, int j) {
  if (j < 4)
    return {byte_at(in, j) & 63, byte_at(in, j + 4) & 63};
  const int low = byte_at(in, j + 4);
  return {(low & 15) | (byte_at(in, j - 4) >> 6 << 4), (low >> 4) | (byte_at(in, j) >> 6 << 4)};
}

void pack_scales(const std::array<scale_and_minimum, sub_blocks>& from, std::byte* out) {
  for (int j = 0; j < 4; ++j) {
    const auto &x = from[std::size_t(j)], &y = from[std::size_t(j + 4)];
    out[j] = std::byte(x.scale | (y.scale >> 4 << 6));
    out[j + 4] = std::byte(x.minimum | (y.minimum >> 4 << 6));
    out[j + 8] = std::byte((y.scale & 15) | ((y.minimum & 15) << 4));
  }
}

/// Q4_K and Q5_K: two halves, scales, for five bits the fifth ones, then four bits of each element.
void from_q4_k(const std::byte* in, float* out, bool five) {
  const auto d = float(load<f16>(in)), dmin = float(load<f16>(in + 2));
  const auto *const scales = in + 4, *const fifth = in + 16, *const low = in + (five ? 48 : 16);
  for (int j = 0; j < sub_blocks; ++j) {
    const auto [scale, minimum] = unpacked_scale(scales, j);
    const auto s = d * float(scale), m = dmin * float(minimum);
    for (int i = 0; i < small_block; ++i) {
      const int four = byte_at(low, j / 2 * small_block + i) >> (j % 2 * 4) & 15;
      const int top = five ? (byte_at(fifth, i) >> j & 1) << 4 : 0;
      out[j * small_block + i] = s * float(four | top) - m;
    }
  }
}

void from_q6_k(const std::byte* in, float* out) {
  const auto *const low = in, *const high = in + 128, *const scales = in + 192;
  const auto d = float(load<f16>(in + 208));
  for (int i = 0; i < large_block; ++i) {
    const int half = i / 128, quarter = i % 128 / 32, l = i % 32;
    const int four = byte_at(low, half * 64 + quarter % 2 * 32 + l) >> (quarter / 2 * 4) & 15;
    const int two = byte_at(high, half * 32 + l) >> (quarter * 2) & 3;
    out[i] = d * float(load<std::int8_t>(scales + i / 16)) * float((four | two << 4) - 32);
  }
}

template <class T>
void to_floats(const std::byte* in, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = float(load<T>(in + i * sizeof(T)));
}

/// 1 / d, or 0 if that is beyond the floats: a factor so small is stored as 0.
float inverse_of(float d) {
  const float out = 1 / d;
  return std::isfinite(out) ? out : 0;
}

/// Stores the factor of a block and returns it as stored.
float store_factor(std::byte* at, float d, const std::string& what) {
  const f16 rounded(d);
  if (!std::isfinite(float(rounded)))
    throw input_error(
        "{} has elements that need the factor {} of a block, beyond float16 (65504); choose the "
        "type bfloat16 or float32",
        what,
        d);
  store(at, rounded);
  return float(rounded);
}

void to_q8_0(const float* in, std::byte* out, const std::string& what) {
  float most = 0;
  for (int i = 0; i < small_block; ++i)
    most = std::max(most, std::abs(in[i]));
  const float d = most / 127, inverse = inverse_of(d);
  store_factor(out, d, what);
  for (int i = 0; i < small_block; ++i)
    store(out + 2 + i, std::int8_t(std::round(in[i] * inverse)));
}

void to_q4_0(const float* in, std::byte* out, const std::string& what) {
  float extreme = 0;  // becomes -8
  for (int i = 0; i < small_block; ++i)
    if (std::abs(in[i]) > std::abs(extreme))
      extreme = in[i];
  const float d = extreme / -8, inverse = inverse_of(d);
  store_factor(out, d, what);
  const auto level = [&](float x) {
    return int(std::clamp(std::trunc(double(x) * double(inverse) + 8.5), 0.0, 15.0));
  };
  for (int i = 0; i < 16; ++i)
    out[2 + i] = std::byte(level(in[i]) | level(in[i + 16]) << 4);
}

/// A sub-block is about scale * level - minimum, with both from 0.
struct fitted {
  float scale = 0, minimum = 0;
  double error = 0;
};

int level_of(float x, float scale, float minimum) {
  return scale > 0 ? int(std::clamp(std::round((x + minimum) / scale), 0.0F, 15.0F)) : 0;
}

double error_of(const float* in, float scale, float minimum) {
  double sum = 0;
  for (int i = 0; i < small_block; ++i) {
    const double x = double(scale) * level_of(in[i], scale, minimum) - double(minimum) - in[i];
    sum += x * x;
  }
  return sum;
}

/// The least squares of the levels that `guess` gives.
fitted refined(const float* in, const fitted& guess) {
  double l = 0, ll = 0, x = 0, lx = 0;
  for (int i = 0; i < small_block; ++i) {
    const int level = level_of(in[i], guess.scale, guess.minimum);
    l += level;
    ll += level * level;
    x += in[i];
    lx += double(level) * in[i];
  }
  const double n = small_block, determinant = n * ll - l * l;
  if (determinant <= 0)
    return guess;
  double scale = (n * lx - l * x) / determinant, minimum = (l * lx - ll * x) / determinant;
  if (minimum < 0) {
    minimum = 0;
    scale = lx / ll;
  }
  fitted out{float(std::max(scale, 0.0)), float(minimum)};
  out.error = error_of(in, out.scale, out.minimum);
  return out;
}

/// Tries scales around that of the extremes, and keeps the one with the smallest square error.
fitted fit(const float* in) {
  const float low = std::min(0.0F, *std::min_element(in, in + small_block));
  const float high = *std::max_element(in, in + small_block);
  if (high <= low)
    return {0, -low, 0};
  if (!std::isfinite(high - low))
    return {high - low, 0, 0};  // store_factor refuses it
  fitted best{(high - low) / 15, -low};
  best.error = error_of(in, best.scale, best.minimum);
  for (float levels = 13; levels < 17; levels += 0.25F) {
    const auto x = refined(in, {(high - low) / levels, -low});
    if (x.error < best.error)
      best = x;
  }
  return best;
}

void to_q4_k(const float* in, std::byte* out, const std::string& what) {
  std::array<fitted, sub_blocks> parts;
  float scale = 0, minimum = 0;
  for (int j = 0; j < sub_blocks; ++j) {
    auto& x = parts[std::size_t(j)];
    x = fit(in + j * small_block);
    scale = std::max(scale, x.scale);
    minimum = std::max(minimum, x.minimum);
  }
  const float d = store_factor(out, scale / 63, what);
  const float dmin = store_factor(out + 2, minimum / 63, what);
  const auto share = [](float x, float of) {
    return of > 0 ? int(std::clamp(std::round(x / of), 0.0F, 63.0F)) : 0;
  };
  std::array<scale_and_minimum, sub_blocks> shares{};
  auto* const low = out + 16;
  std::fill_n(low, 128, std::byte{});
  for (int j = 0; j < sub_blocks; ++j) {
    const auto& x = parts[std::size_t(j)];
    const auto y = scale_and_minimum{share(x.scale, d), share(x.minimum, dmin)};
    shares[std::size_t(j)] = y;
    for (int i = 0; i < small_block; ++i)
      low[j / 2 * small_block + i] |= std::byte(
          level_of(in[j * small_block + i], d * float(y.scale), dmin * float(y.minimum))
          << (j % 2 * 4));
  }
  pack_scales(shares, out + 4);
}

template <class T>
void to_narrow(std::span<const float> in, std::byte* out, const std::string& what) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    const T rounded(in[i]);
    if (!std::isfinite(float(rounded)))
      throw input_error(
          "{} has an element {}, which is beyond the type; choose the type float32", what, in[i]);
    store(out + i * sizeof(T), rounded);
  }
}

template <class Blocks, class Each>
void for_each_block(const block_format& of, std::size_t elements, Blocks* blocks, Each each) {
  for (std::size_t i = 0; i < elements / std::size_t(of.elements); ++i)
    each(blocks + i * of.bytes, i * std::size_t(of.elements));
}

}  // namespace

const block_format* find_block_format(std::uint32_t type) {
  const auto* const found = std::find_if(std::begin(block_formats),
                                         std::end(block_formats),
                                         [&](const auto& x) { return x.type == block_type(type); });
  return found == std::end(block_formats) ? nullptr : found;
}

const block_format& format_of(block_type type) {
  const auto* const found = find_block_format(std::uint32_t(type));
  ensure(found != nullptr, "GGUF-1: every block type is described");
  return *found;
}

std::string block_format_names() {
  std::string out;
  for (const auto& x : block_formats)
    out += (out.empty() ? "" : ", ") + std::string(x.name);
  return out;
}

void dequantise(block_type type, const std::byte* in, std::span<float> out) {
  const auto& format = format_of(type);
  ensure(std::int64_t(out.size()) % format.elements == 0, "GGUF-2: blocks are converted whole");
  if (type == block_type::f32)
    return to_floats<float>(in, out);
  if (type == block_type::f16)
    return to_floats<f16>(in, out);
  if (type == block_type::bf16)
    return to_floats<bf16>(in, out);
  for_each_block(format, out.size(), in, [&](const std::byte* block, std::size_t at) {
    auto* const to = out.data() + at;
    if (type == block_type::q4_0)
      from_q4_0(block, to);
    else if (type == block_type::q8_0)
      from_q8_0(block, to);
    else if (type == block_type::q6_k)
      from_q6_k(block, to);
    else
      from_q4_k(block, to, type == block_type::q5_k);
  });
}

void quantise(block_type type, std::span<const float> in, std::byte* out, const std::string& what) {
  const auto& format = format_of(type);
  ensure(std::int64_t(in.size()) % format.elements == 0, "GGUF-2: blocks are converted whole");
  if (type == block_type::f32) {
    if (!in.empty())
      std::memcpy(out, in.data(), in.size_bytes());
    return;
  }
  if (const auto wrong
      = std::find_if_not(in.begin(), in.end(), [](float x) { return std::isfinite(x); });
      wrong != in.end())
    throw input_error("{} has an element {}; only the type float32 can store it", what, *wrong);
  if (type == block_type::f16)
    return to_narrow<f16>(in, out, what);
  if (type == block_type::bf16)
    return to_narrow<bf16>(in, out, what);
  ensure(type == block_type::q4_0 || type == block_type::q8_0 || type == block_type::q4_k,
         "GGUF-3: Q5_K and Q6_K are only read");
  for_each_block(format, in.size(), out, [&](std::byte* block, std::size_t at) {
    const auto* const from = in.data() + at;
    if (type == block_type::q4_0)
      to_q4_0(from, block, what);
    else if (type == block_type::q8_0)
      to_q8_0(from, block, what);
    else
      to_q4_k(from, block, what);
  });
}

}  // namespace troupe::runtime
