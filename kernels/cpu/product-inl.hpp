// Products of small tiles in registers: c[i][j] = (c[i][j] +) sum_k a(i, k) * b[k][j].
//
// Rows form blocks of `block_rows`, columns form panels of `block_vectors` vectors. The sum of an
// element runs over k in order, with one multiply-add each (fused except on SSE4). Columns are
// counted in vectors; the caller pads them. The layout follows Goto, van de Geijn: "Anatomy of
// High-Performance Matrix Multiplication", 2008.
//
// Compiled once per instruction set, like vector-inl.hpp.

#if defined(TROUPE_KERNELS_CPU_PRODUCT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_PRODUCT_INL
#undef TROUPE_KERNELS_CPU_PRODUCT_INL
#else
#define TROUPE_KERNELS_CPU_PRODUCT_INL
#endif

#include "kernels/cpu/vector-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {

namespace {

/// Loads four numbers as floats.
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> load_four(const float* p) {
  return hn::LoadU(hn::FixedTag<float, 4>(), p);
}
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> load_four(const bf16* p) {
  const hn::FixedTag<std::uint32_t, 4> bits;
  const auto low = hn::PromoteTo(bits, hn::LoadU(hn::FixedTag<std::uint16_t, 4>(), &p->bits));
  return hn::BitCast(hn::FixedTag<float, 4>(), hn::ShiftLeft<16>(low));
}
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> load_four(const f16* p) {
  return promoted_f16(hn::FixedTag<float, 4>(),
                      hn::LoadU(hn::FixedTag<std::uint16_t, 4>(), &p->bits));
}

/// to (columns, rows) = transposed from (rows, columns), as floats.
template <class T>
inline void transpose(const T* from,
                      std::int64_t from_stride,
                      std::int64_t rows,
                      std::int64_t columns,
                      float* to,
                      std::int64_t to_stride) {
  const hn::FixedTag<float, 4> four;
  const hn::Repartition<double, decltype(four)> pair;
  std::int64_t j = 0;
  for (; j + 4 <= rows; j += 4) {
    const T* r = from + j * from_stride;
    std::int64_t c = 0;
    for (; c + 4 <= columns; c += 4) {
      const auto r0 = load_four(r + c), r1 = load_four(r + from_stride + c);
      const auto r2 = load_four(r + 2 * from_stride + c);
      const auto r3 = load_four(r + 3 * from_stride + c);
      const auto a = hn::BitCast(pair, hn::InterleaveLower(four, r0, r1));
      const auto b = hn::BitCast(pair, hn::InterleaveLower(four, r2, r3));
      const auto e = hn::BitCast(pair, hn::InterleaveUpper(four, r0, r1));
      const auto f = hn::BitCast(pair, hn::InterleaveUpper(four, r2, r3));
      float* t = to + c * to_stride + j;
      hn::StoreU(hn::BitCast(four, hn::InterleaveLower(pair, a, b)), four, t);
      hn::StoreU(hn::BitCast(four, hn::InterleaveUpper(pair, a, b)), four, t + to_stride);
      hn::StoreU(hn::BitCast(four, hn::InterleaveLower(pair, e, f)), four, t + 2 * to_stride);
      hn::StoreU(hn::BitCast(four, hn::InterleaveUpper(pair, e, f)), four, t + 3 * to_stride);
    }
    for (; c < columns; ++c)
      for (std::int64_t i = 0; i < 4; ++i)
        to[c * to_stride + j + i] = float(r[i * from_stride + c]);
  }
  for (; j < rows; ++j)
    for (std::int64_t c = 0; c < columns; ++c)
      to[c * to_stride + j] = float(from[j * from_stride + c]);
}

// Uses 24 sums, 4 vectors of b and one of a in 32 registers; 12, 2 and 1 in 16 registers.
constexpr int block_rows = 6;
constexpr int block_vectors = width >= 16 ? 4 : 2;

/// Layout of `a`: rows: a(i, k) = a[i * stride + k]; columns (transposed): a[k * stride + i].
enum class side { rows, columns };

template <side Side, int Rows, int Vectors>
HWY_INLINE void register_block(const float* HWY_RESTRICT a,
                               std::int64_t a_stride,
                               const float* HWY_RESTRICT b,
                               std::int64_t b_stride,
                               std::int64_t depth,
                               float* HWY_RESTRICT c,
                               std::int64_t c_stride,
                               bool accumulate) {
  vec sum[Rows][Vectors];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j)
      sum[i][j] = accumulate ? hn::LoadU(d, c + i * c_stride + j * width) : hn::Zero(d);
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    vec row[Vectors];
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j)
      row[j] = hn::LoadU(d, b + k * b_stride + j * width);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const auto x = hn::Set(d, Side == side::rows ? a[i * a_stride + k] : a[k * a_stride + i]);
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j)
        sum[i][j] = hn::MulAdd(x, row[j], sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j)
      hn::StoreU(sum[i][j], d, c + i * c_stride + j * width);
  }
}

/// Computes `Rows` rows of c, `vectors` vectors wide.
template <side Side, int Rows>
HWY_NOINLINE void row_block(const float* a,
                            std::int64_t a_stride,
                            const float* b,
                            std::int64_t b_stride,
                            std::int64_t depth,
                            float* c,
                            std::int64_t c_stride,
                            std::int64_t vectors,
                            bool accumulate) {
  const auto panel = [&]<int Vectors>() HWY_ATTR {
    register_block<Side, Rows, Vectors>(a, a_stride, b, b_stride, depth, c, c_stride, accumulate);
    b += Vectors * width;
    c += Vectors * width;
  };
  for (; vectors >= block_vectors; vectors -= block_vectors)
    panel.template operator()<block_vectors>();
  if (block_vectors > 3 && vectors == 3)
    panel.template operator()<3>();
  else if (vectors == 2)
    panel.template operator()<2>();
  else if (vectors == 1)
    panel.template operator()<1>();
}

/// Computes up to `block_rows` rows of c.
template <side Side>
inline void small_product(std::int64_t rows,
                          const float* a,
                          std::int64_t a_stride,
                          const float* b,
                          std::int64_t b_stride,
                          std::int64_t depth,
                          float* c,
                          std::int64_t c_stride,
                          std::int64_t vectors,
                          bool accumulate) {
  const auto some = [&]<int Rows>() HWY_ATTR {
    row_block<Side, Rows>(a, a_stride, b, b_stride, depth, c, c_stride, vectors, accumulate);
    a += Side == side::rows ? Rows * a_stride : Rows;
    c += Rows * c_stride;
    rows -= Rows;
  };
  if (rows == block_rows)
    return some.template operator()<block_rows>();
  if (rows >= 4)
    some.template operator()<4>();
  if (rows >= 2)
    some.template operator()<2>();
  if (rows >= 1)
    some.template operator()<1>();
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
