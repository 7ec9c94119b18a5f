// Matrix products: of float and bf16 in tiles where the processor has them; else by oneDNN where it
// has them; else by our own vectors. All are in rows; they run on the team of the calling thread.

#pragma once

#include "kernels/op/linear.hpp"

#include <type_traits>

namespace troupe::kernels::cpu {

/// A matrix in rows, or its transpose.
template <class T>
struct operand {
  const T* data;
  std::int64_t row;  ///< elements from one row in memory to the next
  bool transposed = false;
};

/// a times b: either into `c`, or rounded into `rounded`; of these exactly one is not null, also
/// for `scratch`, which reads neither. A bias of float and the last three members are for products
/// in tiles, whose `rounded` may be null beside `activated`; others must be given none.
template <class T>
struct product {
  operand<T> a;              ///< (M, K)
  operand<T> b;              ///< (K, N)
  std::int64_t M, N, K;      ///< above 0
  float* c = nullptr;        ///< (M, N) written, or added to
  bool accumulated = false;  ///< c is added to
  T* rounded = nullptr;      ///< (M, N) written, rounded once to T
  const T* bias = nullptr;   ///< (N) of `rounded`, or null

  epilogue activation = epilogue::none;
  /// (M, N) written: the activation of what is, or would be, in `rounded`, which may then be null;
  T* activated = nullptr;
  /// or (M, N): `rounded`, rounded, times the activation's slope there, rounded again.
  const T* slope_at = nullptr;
};

/// Bytes of workspace that `multiply` needs.
template <class T>
std::size_t scratch(const product<T>& p, int threads);

/// Of bf16 by oneDNN or in tiles, denormal numbers may count as zero, as the instructions have it.
/// Of float in tiles (amx.hpp) an element may be as wrong as one by multiply-adds in order, and by
/// two roundings more. Besides
///
/// - some 2^-126 may be lost for each 32 terms: bits of factors and of terms below 1e-31;
/// - what comes within a hundredth of the largest float may be infinite, or not a number, and a
///   product with an infinity not a number.
/// Throws std::system_error where oneDNN would be asked and OpenMP gives fewer threads than the
/// team has (team.hpp).
template <class T>
void multiply(const product<T>& p, const context& in);

// packed_product.cpp: of f16, and of bf16 on processors that do not multiply it, where oneDNN has
// none. Operands are promoted to float as they are packed. An element is the sum of blocks of 384
// terms, each in order by one multiply-add (fused but on SSE4) after the other: with one
// instruction set its bits depend neither on M and N nor on the number of threads.

template <class T>
std::size_t packed_scratch(const product<T>& p, int threads);
template <class T>
void multiply_packed(const product<T>& p, const context& in);

// tile_product.cpp: of bf16, and of float in pieces of bf16, by tiles (amx.hpp), with everything
// that may follow it. An element is the sum of its terms in order, 32 at a time: its bits depend
// neither on M and N nor on the number of threads. A weight of bf16 beside at most 32 rows is read
// where it lies.

/// Whether this processor has tiles for products of T, beside the vectors that are chosen. Never of
/// f16.
template <class T>
bool has_tiles_of();
/// Whether a product goes that way: of bf16 all, of float those of so many rows and columns that
/// splitting the factors pays. Asks M, N and K.
template <class T>
bool in_tiles(const product<T>& p);
/// As long as one stands, products of float go in tiles however few rows and columns they have: for
/// tests.
class small_products_in_tiles {
 public:
  small_products_in_tiles();
  ~small_products_in_tiles();
  small_products_in_tiles(const small_products_in_tiles&) = delete;
  small_products_in_tiles& operator=(const small_products_in_tiles&) = delete;
};
// These two only where there are.
template <class T>
std::size_t tiles_scratch(const product<T>& p, int threads);
template <class T>
void multiply_in_tiles(const product<T>& p, const context& in);

// few_rows.cpp: the forward pass of a few rows, as in decoding, where tiles do not multiply them.
// Every weight is read once, as it lies: as fast as memory. The bits of a row do not depend on the
// other few beside it.

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
