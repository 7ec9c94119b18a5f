// Computes a product: converts inputs to float, sums in the order of the algorithm, applies the
// epilogue in float and rounds once.

#include "tests/emulator/cublaslt.hpp"
#include "tests/emulator/include/cuda_bf16.h"
#include "tests/emulator/include/cuda_fp16.h"
#include "tests/emulator/settings.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace troupe::emulator {
namespace {

float read(const void* from, std::uint32_t type, std::size_t i) {
  switch (type) {
    case CUDA_R_16BF:
      return float(static_cast<const __nv_bfloat16*>(from)[i]);
    case CUDA_R_16F:
      return float(static_cast<const __half*>(from)[i]);
    default:
      return static_cast<const float*>(from)[i];
  }
}

void write(void* to, std::uint32_t type, std::size_t i, float value) {
  switch (type) {
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(to)[i] = value;
      break;
    case CUDA_R_16F:
      static_cast<__half*>(to)[i] = value;
      break;
    default:
      static_cast<float*>(to)[i] = value;
      break;
  }
}

/// Rounds to 10 bits of fraction, to nearest, ties to even. Keeps infinities and NaN.
float as_tf32(float x) {
  const unsigned bits = std::bit_cast<unsigned>(x);
  if ((bits & 0x7f800000U) == 0x7f800000U)
    return x;
  return std::bit_cast<float>((bits + 0xfffU + ((bits >> 13) & 1U)) & ~0x1fffU);
}

/// The matrix as (outer, k), with a contiguous inner dimension. Its columns are the outer dimension
/// if `columns`.
std::vector<float> unpacked(const void* from, const matrix_layout& is, bool columns, bool in_tf32) {
  const std::size_t outer = columns ? is.cols : is.rows, k = columns ? is.rows : is.cols;
  std::vector<float> to(outer * k);
  for (std::size_t c = 0; c < is.cols; ++c)
    for (std::size_t r = 0; r < is.rows; ++r)
      to[columns ? c * k + r : r * k + c]
          = in_tf32 ? as_tf32(read(from, is.type, c * std::size_t(is.ld) + r))
                    : read(from, is.type, c * std::size_t(is.ld) + r);
  return to;
}

template <int Lanes>
float dot(const float* x, const float* y, std::size_t n) {
  float lane[Lanes] = {};
  std::size_t i = 0;
  for (; i + Lanes <= n; i += Lanes)
    for (int l = 0; l < Lanes; ++l)
      lane[l] += x[i + std::size_t(l)] * y[i + std::size_t(l)];
  for (int l = 0; i < n; ++i, ++l)
    lane[l] += x[i] * y[i];
  float sum = lane[0];
  for (int l = 1; l < Lanes; ++l)
    sum += lane[l];
  return sum;
}

float dot(const algorithm& by, const float* x, const float* y, std::size_t n) {
  switch (by.lanes) {
    case 4:
      return dot<4>(x, y, n);
    case 8:
      return dot<8>(x, y, n);
    default:
      return dot<16>(x, y, n);
  }
}

constexpr int fraction = 23, bias_of_exponent = 1023, fraction_of_double = 52;

int exponent_of(double x) {
  return int(std::bit_cast<std::uint64_t>(x) >> fraction_of_double & 0x7ff) - bias_of_exponent;
}

float towards_zero(double x) {
  const float near = float(x);
  return std::abs(double(near)) > std::abs(x) ? std::nextafter(near, 0.0F) : near;
}

/// Adds as tensor cores do. The products of a block and the accumulator are aligned to the largest
/// of them and truncated after the 23 bits of its fraction; so is their sum. Fasi, Higham,
/// Mikaitis, Pranesh: "Numerical behavior of NVIDIA tensor cores", PeerJ Computer Science 7, 2021;
/// Khattak, Mikaitis: "Accurate Models of NVIDIA Tensor Cores", 2025. A V100 keeps no extra bit, an
/// A100 one and an H100 two, in blocks of 4, 8 and 16. This function keeps none; the block size is
/// the number of lanes of the algorithm.
float dot_in_blocks(std::size_t block, const float* x, const float* y, std::size_t n) {
  float sum = 0;
  for (std::size_t begin = 0; begin < n; begin += block) {
    double terms[17] = {double(sum)};  // products are exact
    std::size_t count = 1;
    for (std::size_t i = begin; i < std::min(n, begin + block); ++i)
      terms[count++] = double(x[i]) * double(y[i]);
    int largest = -bias_of_exponent;
    for (std::size_t i = 0; i < count; ++i)
      largest = std::max(largest, exponent_of(terms[i]));
    double of_block = 0;
    for (std::size_t i = 0; i < count; ++i)
      of_block
          += std::ldexp(std::trunc(std::ldexp(terms[i], fraction - largest)), largest - fraction);
    sum = towards_zero(of_block);
  }
  return sum;
}

/// Uses the workspace if the algorithm sums the inner dimension in parts, as a device does.
std::vector<float> sums(const product& is,
                        const std::vector<float>& a,
                        const std::vector<float>& b,
                        bool in_blocks) {
  const std::size_t m = is.m(), n = is.n(), k = is.k(), parts = std::size_t(is.by.parts);
  std::vector<float> all(m * n);
  auto* const partial = static_cast<float*>(is.workspace);
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t from = k * part / parts, to = k * (part + 1) / parts;
    float* const into = parts == 1 ? all.data() : partial + part * m * n;
    for (std::size_t col = 0; col < n; ++col)
      for (std::size_t row = 0; row < m; ++row)
        into[col * m + row]
            = in_blocks ? dot_in_blocks(
                  std::size_t(is.by.lanes), &a[row * k] + from, &b[col * k] + from, to - from)
                        : dot(is.by, &a[row * k] + from, &b[col * k] + from, to - from);
  }
  for (std::size_t part = 0; parts > 1 && part < parts; ++part)
    for (std::size_t i = 0; i < m * n; ++i)
      all[i] += partial[part * m * n + i];
  return all;
}

constexpr float gelu_scale = 0.7978845608F;  // sqrt(2 / pi)
constexpr float gelu_cubic = 0.044715F;

/// When coarse, rounds to 11 bits: PTX allows tanh.approx a relative error of 2^-11.
float tanh_of_device(float x) {
  const float t = std::tanh(x);
  if (!machine().coarse || !std::isfinite(t) || t == 0)
    return t;
  const int exponent = std::ilogb(t);
  return std::ldexp(std::nearbyint(std::ldexp(t, 10 - exponent)), exponent - 10);
}

float gelu(float x) {
  return 0.5F * x * (1.0F + tanh_of_device(gelu_scale * (x + gelu_cubic * x * x * x)));
}

float gelu_slope(float x) {
  const float t = tanh_of_device(gelu_scale * (x + gelu_cubic * x * x * x));
  const float inner = gelu_scale * (1.0F + 3.0F * gelu_cubic * x * x);
  return 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * inner;
}

void finish(const product& is, const std::vector<float>& all, float alpha, float beta) {
  const std::size_t m = is.m(), n = is.n();
  for (std::size_t col = 0; col < n; ++col) {
    for (std::size_t row = 0; row < m; ++row) {
      float x = alpha * all[col * m + row];
      if (beta != 0)
        x += beta * read(is.c_data, is.c.type, col * std::size_t(is.c.ld) + row);
      if (is.has(with_bias))
        x += read(is.desc.bias, is.d.type, row);
      const std::size_t aux = col * std::size_t(is.desc.aux_ld) + row;
      if (is.has(with_gelu) && is.has(with_aux))
        write(is.desc.aux, is.d.type, aux, x);
      if (is.has(with_gelu))
        x = gelu(x);
      if (is.has(with_gelu_gradient))
        x *= gelu_slope(read(is.desc.aux, is.d.type, aux));
      write(is.d_data, is.d.type, col * std::size_t(is.d.ld) + row, x);
    }
  }
}

}  // namespace

std::size_t bytes_of(std::uint32_t type) {
  return type == CUDA_R_32F ? 4 : 2;
}

std::size_t workspace_of(const product& what) {
  if (what.by.parts == 1)
    return 0;
  return (std::size_t(what.by.parts) * what.m() * what.n() * sizeof(float) + 255) / 256 * 256;
}

void compute(const product& is, float alpha, float beta) {
  const bool in_tf32 = is.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const auto a = unpacked(is.a_data, is.a, is.desc.transa != CUBLAS_OP_N, in_tf32);
  const auto b = unpacked(is.b_data, is.b, is.desc.transb == CUBLAS_OP_N, in_tf32);
  // Products of fp32 factors do not run on tensor cores.
  const bool in_blocks = machine().coarse && (in_tf32 || is.a.type != CUDA_R_32F);
  finish(is, sums(is, a, b, in_blocks), alpha, beta);
}

}  // namespace troupe::emulator
