// Matrix products, by oneDNN but for a few rows. All are in rows; they run on the team of the
// calling thread.

#pragma once

#include "kernels/op/linear.hpp"

#include <compare>
#include <type_traits>

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

template <class T>
constexpr narrow_type narrow_type_of();
template <>
constexpr narrow_type narrow_type_of<bf16>() {
  return narrow_type::bf16;
}
template <>
constexpr narrow_type narrow_type_of<f16>() {
  return narrow_type::f16;
}

/// The shape of a product of narrow numbers, which is summed in float. By oneDNN, of bf16, denormal
/// numbers may count as zero, as the instructions of AVX512_BF16 have it.
struct narrow_product {
  narrow_type type;
  std::int64_t M, N, K;
  bool a_transposed = false;  ///< a lies in memory as (K, M)
  bool b_transposed = false;  ///< b lies in memory as (N, K)
  bool biased = false;
  bool to_float = false;     ///< c is float; then without bias
  bool accumulated = false;  ///< c is float and added to

  friend auto operator<=>(const narrow_product&, const narrow_product&) = default;
};

/// Bytes of workspace that `multiply` needs.
std::size_t scratch(const narrow_product& shape, int threads);

/// c (M, N) = a (M, K) times b (K, N) + bias (N), rounded once; `bias` is null unless biased. For
/// bf16 and f16.
template <class T>
void multiply(
    const narrow_product& shape, const T* a, const T* b, const T* bias, T* c, const context& in);
/// c (M, N) = a (M, K) times b (K, N), or += where it is accumulated.
template <class T>
void multiply(const narrow_product& shape, const T* a, const T* b, float* c, const context& in);

// widened_product.cpp: the same by products of float, where oneDNN has no others: of f16, and of
// bf16 on processors that do not multiply it. Some rows at a time are converted, and a weight as a
// whole.
std::size_t widened_scratch(const narrow_product& shape);
template <class T>
void widened_multiply(
    const narrow_product& shape, const T* a, const T* b, const T* bias, T* c, const context& in);
template <class T>
void widened_multiply(
    const narrow_product& shape, const T* a, const T* b, float* c, const context& in);

// few_rows.cpp: the forward pass of a few rows, as in decoding. Every weight is read once, as it
// lies: as fast as memory. The bits of a row do not depend on the rows beside it.

constexpr std::int64_t most_few_rows = 8;

template <class T>
struct few_rows_product {
  T* y;             ///< (R, N) written
  const float* x;   ///< (R, K)
  const T* weight;  ///< (N, K)
  const T* bias;    ///< (N) or null
  std::int64_t R, N, K;
};

/// Bytes of workspace that `multiply_few_rows` needs.
template <class T>
constexpr std::size_t few_rows_scratch(std::int64_t R, std::int64_t K) {
  return std::is_same_v<T, float> ? 0 : sizeof(float) * std::size_t(R * K);
}

/// z (R, N) = x (R, K) times weight (N, K) transposed + bias, rounded once, of at most
/// `most_few_rows` rows.
template <class T>
void multiply_few_rows(const linear_forward<T>& op, T* z, const context& in);

}  // namespace troupe::kernels::cpu
