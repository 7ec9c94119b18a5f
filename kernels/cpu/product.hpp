// Matrix products on row-major operands, on the calling thread's OpenMP team. float and bf16 use
// AMX tiles if available; otherwise oneDNN if it supports the type, else own vector code.

#pragma once

#include "kernels/op/linear.hpp"

#include <span>
#include <type_traits>

namespace troupe::kernels::cpu {

/// A row-major matrix or its transpose.
template <class T>
struct operand {
  const T* data;
  std::int64_t row;  ///< distance between rows in memory, in elements
  bool transposed = false;
};

/// c or rounded = a times b. Exactly one of `c` and `rounded` is non-null, also for `scratch`,
/// which reads neither. Only products with tiles and parts support a float bias. Only products with
/// tiles support the last three members; with `activated` their `rounded` may be null.
template <class T>
struct product {
  operand<T> a;              ///< (M, K)
  operand<T> b;              ///< (K, N)
  std::int64_t M, N, K;      ///< at least 1
  float* c = nullptr;        ///< (M, N) written, or added to
  bool accumulated = false;  ///< adds to c instead of writing it
  T* rounded = nullptr;      ///< (M, N) written, rounded once to T
  const T* bias = nullptr;   ///< (N) added to `rounded`; or null

  epilogue activation = epilogue::none;
  /// (M, N) written: the activation of the rounded product. `rounded` may then be null.
  T* activated = nullptr;
  /// (M, N) or: multiplies the rounded product by the activation's slope here and rounds again.
  const T* slope_at = nullptr;
  bool row_invariant = false;  ///< the choice of tiles does not depend on M
};

/// Workspace bytes that `multiply` needs.
template <class T>
std::size_t scratch(const product<T>& p, int threads);

/// Runs the product. bf16 products by oneDNN or tiles may treat denormals as zero, like the
/// instructions do. A float product with tiles (amx.hpp) has the error bound of multiply-adds in
/// order plus two roundings. In addition:
///
/// - Up to about 2^-126 may be lost per 32 terms: bits of factors and terms below 1e-31.
/// - Results within a hundredth of the largest float may be infinite or NaN, and products with
///   infinity may be NaN.
///
/// Throws std::system_error if oneDNN is needed and OpenMP gives fewer threads than the team has
/// (team.hpp).
template <class T>
void multiply(const product<T>& p, const context& in);

/// A range of rows and of columns of a product. Both begin at multiples of 32.
struct product_part {
  std::int64_t row, rows;        ///< at most `most_rows_of_part`
  std::int64_t column, columns;  ///< at most `most_columns_of_part`
};
constexpr std::int64_t most_rows_of_part = 480, most_columns_of_part = 512;

// A part of one of many products, on the calling thread. `tiles`: in tiles, which has_tiles_of<T>()
// allows; else by packed_product.cpp. Never by oneDNN, which prepares each new shape. So a bf16
// processor without tiles uses its bf16 instructions for dense products only. For one instruction
// set, bits depend on `tiles` and K only, not on the part, M or N.

/// One product, or several that differ in K and in the data of their factors. All but the first add
/// to its c. Each product is a sum of its own, so bits are those of a call per product.
template <class T>
using product_series = std::span<const product<T>>;
/// Terms of short products that are added before c is written; each product's are rounded up to a
/// multiple of 32.
constexpr std::int64_t terms_of_series = 256;

/// Workspace bytes for each part of a product. Of a series: of the product with the most terms, but
/// not fewer than `terms_of_series` or those of all products.
template <class T>
std::size_t part_scratch(const product<T>& p, bool tiles);
template <class T>
void multiply_part(product_series<T> all, const product_part& part, bool tiles, const context& in);

// packed_product.cpp: f16, bf16 on processors where oneDNN lacks it, and parts of all types.
// Operands are converted to float during packing. Parts read a float weight in place. An element is
// the sum of blocks of 384 terms. Within a block, terms are added in order by multiply-adds (fused
// except on SSE4). For one instruction set, bits do not depend on M, N or the thread count.

template <class T>
std::size_t packed_scratch(const product<T>& p, int threads);
template <class T>
void multiply_packed(const product<T>& p, const context& in);
template <class T>
std::size_t packed_part_scratch(const product<T>& p);
template <class T>
void multiply_packed_part(product_series<T> all, const product_part& part, const context& in);

// tile_product.cpp: bf16, and float in pieces of bf16, with AMX tiles (amx.hpp) and fused
// epilogues. An element is the sum of its terms in order, 32 at a time. Bits do not depend on M, N
// or the thread count. A bf16 weight is read in place with at most 32 rows, and by parts.

/// True if this processor and the selected instruction set have tiles for T; false for f16.
template <class T>
bool has_tiles_of();
/// True if the product uses tiles: every bf16 product, and float products for which splitting the
/// factors pays off, except with `row_invariant`. Depends on M, N and K.
template <class T>
bool in_tiles(const product<T>& p);
/// While alive, small float products use tiles, too. Used by tests.
class small_products_in_tiles {
 public:
  small_products_in_tiles();
  ~small_products_in_tiles();
  small_products_in_tiles(const small_products_in_tiles&) = delete;
  small_products_in_tiles& operator=(const small_products_in_tiles&) = delete;
};
// Require has_tiles_of<T>().
template <class T>
std::size_t tiles_scratch(const product<T>& p, int threads);
template <class T>
void multiply_in_tiles(const product<T>& p, const context& in);
template <class T>
std::size_t tiles_part_scratch(const product<T>& p);
template <class T>
void multiply_part_in_tiles(product_series<T> all, const product_part& part, const context& in);

// few_rows.cpp: forward pass with few rows, as in decoding, without tiles. Reads every weight once
// and in place, at memory speed. The bits of a row do not depend on the other rows or on their
// number. More rows pass in blocks, while some of the weights stay in the cache.

constexpr std::int64_t most_few_rows = 8;

template <class T>
struct few_rows_product {
  T* y;             ///< (R, N) written
  const float* x;   ///< (R, K)
  const T* weight;  ///< (N, K)
  const T* bias;    ///< (N) or null
  std::int64_t R, N, K;
};

/// Workspace bytes that `multiply_few_rows` needs.
template <class T>
constexpr std::size_t few_rows_scratch(std::int64_t R, std::int64_t K) {
  return std::is_same_v<T, float> ? 0 : sizeof(float) * std::size_t(R * K);
}

/// z (R, N) = x (R, K) times transposed weight (N, K) + bias, rounded once.
template <class T>
void multiply_few_rows(const linear_forward<T>& op, T* z, const context& in);

}  // namespace troupe::kernels::cpu
