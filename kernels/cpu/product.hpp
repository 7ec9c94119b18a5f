// Matrix products, by oneDNN. All are in rows; they run on the team of the calling thread.

#pragma once

#include "kernels/op/context.hpp"

#include <compare>

namespace troupe::kernels::cpu {

/// A matrix in rows, or its transpose.
struct matrix {
  const float* data;
  std::int64_t row;
  bool transposed = false;
};

/// c (M, N) = beta * c + a (M, K) times b (K, N).
void multiply(matrix a,
              matrix b,
              float* c,
              std::int64_t M,
              std::int64_t N,
              std::int64_t K,
              float beta,
              int threads);

/// The shape of a product of bf16, which is summed in float. Denormal numbers may count as zero, as
/// the instructions of AVX512_BF16 have it.
struct bf16_product {
  std::int64_t M, N, K;
  bool a_transposed = false;  ///< a lies in memory as (K, M)
  bool b_transposed = false;  ///< b lies in memory as (N, K)
  bool biased = false;
  bool accumulated = false;  ///< c is float and added to; then without bias

  friend auto operator<=>(const bf16_product&, const bf16_product&) = default;
};

/// Bytes of workspace that `multiply` needs.
std::size_t scratch(const bf16_product& shape, int threads);

/// c (M, N) = a (M, K) times b (K, N) + bias (N), rounded once; `bias` is null unless biased.
void multiply(const bf16_product& shape,
              const bf16* a,
              const bf16* b,
              const bf16* bias,
              bf16* c,
              const context& in);
/// c (M, N) += a (M, K) times b (K, N).
void accumulate(
    const bf16_product& shape, const bf16* a, const bf16* b, float* c, const context& in);

// widened_product.cpp: the same by products of float, for processors on which oneDNN has none of
// bf16. Some rows at a time are converted, and a weight as a whole.
std::size_t widened_scratch(const bf16_product& shape);
void widened_multiply(const bf16_product& shape,
                      const bf16* a,
                      const bf16* b,
                      const bf16* bias,
                      bf16* c,
                      const context& in);
void widened_accumulate(
    const bf16_product& shape, const bf16* a, const bf16* b, float* c, const context& in);

}  // namespace troupe::kernels::cpu
