// The arithmetic of a product: inputs as floats, sums in the order of the algorithm, the epilogue
// in float, one rounding.

#include "tests/emulator/cublaslt.hpp"
#include "tests/emulator/include/cuda_bf16.h"
#include "tests/emulator/include/cuda_fp16.h"

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

const void* moved(const void* from, std::uint32_t type, std::int64_t elements) {
  return static_cast<const std::byte*>(from) + elements * std::int64_t(bytes_of(type));
}

/// To 10 bits of fraction, to nearest, ties to even; what is not finite stays.
float as_tf32(float x) {
  const unsigned bits = std::bit_cast<unsigned>(x);
  if ((bits & 0x7f800000U) == 0x7f800000U)
    return x;
  return std::bit_cast<float>((bits + 0xfffU + ((bits >> 13) & 1U)) & ~0x1fffU);
}

/// What the units for products see of an fp32 input.
float narrowed(float x, std::int32_t compute) {
  switch (compute) {
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return as_tf32(x);
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      return float(__nv_bfloat16(x));
    case CUBLAS_COMPUTE_32F_FAST_16F:
      return float(__half(x));
    default:
      return x;
  }
}

/// (outer, k): the inner dimension is contiguous, whatever the matrix is. Columns of the matrix are
/// the outer dimension if `columns`.
std::vector<float> unpacked(const void* from,
                            const matrix_layout& is,
                            bool columns,
                            std::int32_t compute) {
  const std::size_t outer = columns ? is.cols : is.rows, k = columns ? is.rows : is.cols;
  std::vector<float> to(outer * k);
  for (std::size_t c = 0; c < is.cols; ++c)
    for (std::size_t r = 0; r < is.rows; ++r)
      to[columns ? c * k + r : r * k + c]
          = narrowed(read(from, is.type, c * std::size_t(is.ld) + r), compute);
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

/// By way of the workspace if the inner dimension is summed in parts, as a device does it.
std::vector<float> sums(const product& is,
                        const std::vector<float>& a,
                        const std::vector<float>& b) {
  const std::size_t m = is.m(), n = is.n(), k = is.k(), parts = std::size_t(is.by.parts);
  std::vector<float> all(m * n);
  auto* const partial = static_cast<float*>(is.workspace);
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t from = k * part / parts, to = k * (part + 1) / parts;
    float* const into = parts == 1 ? all.data() : partial + part * m * n;
    for (std::size_t col = 0; col < n; ++col)
      for (std::size_t row = 0; row < m; ++row)
        into[col * m + row] = dot(is.by, &a[row * k] + from, &b[col * k] + from, to - from);
  }
  for (std::size_t part = 0; parts > 1 && part < parts; ++part)
    for (std::size_t i = 0; i < m * n; ++i)
      all[i] += partial[part * m * n + i];
  return all;
}

constexpr float gelu_scale = 0.7978845608F;  // sqrt(2 / pi)
constexpr float gelu_cubic = 0.044715F;

float gelu(float x) {
  return 0.5F * x * (1.0F + std::tanh(gelu_scale * (x + gelu_cubic * x * x * x)));
}

float gelu_slope(float x) {
  const float t = std::tanh(gelu_scale * (x + gelu_cubic * x * x * x));
  const float inner = gelu_scale * (1.0F + 3.0F * gelu_cubic * x * x);
  return 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * inner;
}

/// One matrix of a batch, its pointers being those of the matrix.
void finish(const product& is, std::vector<float> all, float alpha, float beta) {
  const std::size_t m = is.m(), n = is.n();
  std::vector<float> gradient(m);
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
      gradient[row] += x;
      write(is.d_data, is.d.type, col * std::size_t(is.d.ld) + row, x);
    }
  }
  if (is.has(with_bias_gradient))
    for (std::size_t row = 0; row < m; ++row)
      write(is.desc.bias, is.d.type, row, gradient[row]);
}

/// Sums of an input over the inner dimension, one for each row of (outer, k).
void write_sums(const product& is, const std::vector<float>& of, std::size_t outer) {
  for (std::size_t i = 0; i < outer; ++i) {
    float sum = 0;
    for (std::size_t j = 0; j < is.k(); ++j)
      sum += of[i * is.k() + j];
    write(is.desc.bias, is.d.type, i, sum);
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

void compute(const product& what, float alpha, float beta) {
  for (std::int64_t batch = 0; batch < what.d.batches; ++batch) {
    product is = what;
    is.a_data = moved(what.a_data, what.a.type, batch * what.a.stride);
    is.b_data = moved(what.b_data, what.b.type, batch * what.b.stride);
    is.c_data = moved(what.c_data, what.c.type, batch * what.c.stride);
    is.d_data = const_cast<void*>(moved(what.d_data, what.d.type, batch * what.d.stride));
    is.desc.bias
        = const_cast<void*>(moved(what.desc.bias, what.d.type, batch * what.desc.bias_stride));
    is.desc.aux
        = const_cast<void*>(moved(what.desc.aux, what.d.type, batch * what.desc.aux_stride));
    const auto a = unpacked(is.a_data, is.a, is.desc.transa != CUBLAS_OP_N, is.desc.compute);
    const auto b = unpacked(is.b_data, is.b, is.desc.transb == CUBLAS_OP_N, is.desc.compute);
    finish(is, sums(is, a, b), alpha, beta);
    if (is.desc.epilogue == CUBLASLT_EPILOGUE_BGRADA)
      write_sums(is, a, is.m());
    if (is.desc.epilogue == CUBLASLT_EPILOGUE_BGRADB)
      write_sums(is, b, is.n());
  }
}

}  // namespace troupe::emulator
