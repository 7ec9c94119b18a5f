#include "kernels/cpu/packing.hpp"
#include "kernels/cpu/product.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#include <array>
#include <omp.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/packed_product.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/packed_product-inl.hpp"
// clang-format on

#if HWY_ONCE
namespace troupe::kernels::cpu {
namespace {

TROUPE_EXPORT(pack_b);
TROUPE_EXPORT(multiply_rows);
TROUPE_EXPORT(round_rows);
TROUPE_EXPORT(multiply_in_place);
TROUPE_EXPORT(write_transposed);

constexpr std::int64_t floats_of_a = rows_at_once * terms_at_once;  ///< packed rows per thread

/// Adds the terms [term, term + depth) to the sums of the current rows and columns.
template <class T>
void multiply_terms(const packing<T>& at, int threads) {
  split(threads, at.columns, widest_panel, [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(pack_b, T)(at, begin, end);
  });
  // True: divides rows, and each thread packs its own rows. False (few rows): divides columns, and
  // each thread packs all rows. If one part runs alone, it uses slot 0, because the caller's thread
  // number may differ.
  const bool by_rows
      = at.rows / rows_of_block >= std::min<std::int64_t>(4 * threads, at.columns / widest_panel);
  const std::int64_t n = by_rows ? at.rows : at.columns;
  const std::int64_t grain = by_rows ? rows_of_block : widest_panel;
  split(threads, n, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t number = begin == 0 && end == n ? 0 : omp_get_thread_num();
    float* const a = at.packed_a + number * floats_of_a;
    if (by_rows)
      TROUPE_DISPATCH(multiply_rows, T)(at, begin, end, 0, at.columns, a);
    else
      TROUPE_DISPATCH(multiply_rows, T)(at, 0, at.rows, begin, end, a);
  });
}

}  // namespace

template <class T>
std::size_t packed_scratch(const product<T>& p, int threads) {
  const std::int64_t columns = columns_of(p);
  return sizeof(float)
         * std::size_t(columns * terms_at_once + threads * floats_of_a
                       + (p.rounded ? rows_of(p) * columns : 0));
}

template <class T>
void multiply_packed(const product<T>& p, const context& in) {
  auto* const b = scratch_array<float>(in, packed_scratch(p, in.threads));
  auto* const a = b + columns_of(p) * terms_at_once;
  packing<T> at{.of = p,
                .packed_b = b,
                .packed_a = a,
                .sums = p.rounded ? a + in.threads * floats_of_a : nullptr,
                .sums_row = columns_of(p)};
  for (; at.row < p.M; at.row += at.rows) {
    at.rows = std::min(rows_of(p), p.M - at.row);
    for (at.column = 0; at.column < p.N; at.column += at.columns) {
      at.columns = std::min(columns_of(p), p.N - at.column);
      for (std::int64_t term = 0; term < p.K; term += terms_at_once) {
        const auto block = block_of(p, term, std::min(terms_at_once, p.K - term));
        at.blocks = {&block, 1};
        at.begun = term > 0 || p.accumulated;
        at.last = term + block.depth == p.K;
        multiply_terms(at, in.threads);
      }
      if (p.rounded)
        split(in.threads,
              at.rows,
              rows_worth_a_thread(at.columns),
              [&](std::int64_t begin, std::int64_t end) {
                TROUPE_DISPATCH(round_rows, T)(at, begin, end);
              });
    }
  }
}

namespace {

template <class T>
std::int64_t widest_part(const product<T>& p) {
  return round_up(std::min(p.N, most_columns_of_part), widest_panel);
}
template <class T>
std::int64_t highest_part(const product<T>& p) {
  return round_up(std::min(p.M, most_rows_of_part), widest_panel);
}

/// True if a part is computed transposed: c as rows of b times rows of a. Then the rows of b, a
/// weight, are read in place, and the few rows of a are packed. With few terms that gains nothing,
/// and the scratch, which is for terms_at_once terms, would grow with the rows of the largest
/// group.
template <class T>
bool reads_weight_in_place(const product<T>& p) {
  constexpr std::int64_t few = 128;
  return std::is_same_v<T, float> && p.b.transposed && !p.a.transposed && p.K > few;
}

}  // namespace

template <class T>
std::size_t packed_part_scratch(const product<T>& p) {
  const std::int64_t columns = widest_part(p);
  if (reads_weight_in_place(p))
    return sizeof(float) * std::size_t(highest_part(p) * (terms_at_once + columns));
  return sizeof(float)
         * std::size_t(columns * terms_at_once + floats_of_a
                       + (p.rounded ? std::min(p.M, most_rows_of_part) * columns : 0));
}

namespace {

void multiply_transposed_part(const product<float>& p,
                              const product_part& part,
                              const context& in) {
  const product<float> transposed{{p.b.data, p.b.row}, {p.a.data, p.a.row, true}, p.N, p.M, p.K};
  const std::int64_t sums_row = highest_part(p);
  auto* const b = scratch_array<float>(in, packed_part_scratch(p));
  packing<float> at{.of = transposed,
                    .packed_b = b,
                    .packed_a = nullptr,
                    .sums = b + sums_row * terms_at_once,
                    .sums_row = sums_row,
                    .row = part.column,
                    .rows = part.columns,
                    .column = part.row,
                    .columns = part.rows};
  for (std::int64_t term = 0; term < p.K; term += terms_at_once) {
    const auto block = block_of(transposed, term, std::min(terms_at_once, p.K - term));
    at.blocks = {&block, 1};
    TROUPE_DISPATCH(pack_b, float)(at, 0, at.columns);
    TROUPE_DISPATCH(multiply_in_place, float)(at);
    at.begun = true;
  }
  TROUPE_DISPATCH(write_transposed, float)(at, p);
}

}  // namespace

template <class T>
void multiply_packed_part(product_series<T> all, const product_part& part, const context& in) {
  const auto& p = all.front();
  if constexpr (std::is_same_v<T, float>)
    if (reads_weight_in_place(p))
      return multiply_transposed_part(p, part, in);
  auto* const b = scratch_array<float>(in, packed_part_scratch(p));
  auto* const a = b + widest_part(p) * terms_at_once;
  packing<T> at{.of = p,
                .packed_b = b,
                .packed_a = a,
                .sums = p.rounded ? a + floats_of_a : nullptr,
                .sums_row = widest_part(p),
                .row = part.row,
                .rows = part.rows,
                .column = part.column,
                .columns = part.columns,
                .begun = p.accumulated};
  std::array<term_block<T>, 16> blocks;
  std::size_t count = 0;
  std::int64_t packed = 0;
  const auto multiply_blocks = [&](bool last) {
    at.blocks = {blocks.data(), count};
    at.last = last;
    TROUPE_DISPATCH(pack_b, T)(at, 0, at.columns);
    TROUPE_DISPATCH(multiply_rows, T)(at, 0, at.rows, 0, at.columns, a);
    at.begun = true;
    count = 0;
    packed = 0;
  };
  for (const auto& one : all)
    for (std::int64_t term = 0, depth = 0; term < one.K; term += depth) {
      depth = std::min(terms_at_once, one.K - term);
      if (count == blocks.size() || packed + depth > terms_at_once)
        multiply_blocks(false);
      blocks[count++] = block_of(one, term, depth, packed);
      packed += depth;
    }
  multiply_blocks(true);
  if (p.rounded)
    TROUPE_DISPATCH(round_rows, T)(at, 0, at.rows);
}

template std::size_t packed_scratch(const product<bf16>&, int);
template std::size_t packed_scratch(const product<f16>&, int);
template void multiply_packed(const product<bf16>&, const context&);
template void multiply_packed(const product<f16>&, const context&);

#define TROUPE_INSTANTIATE(T)                                  \
  template std::size_t packed_part_scratch(const product<T>&); \
  template void multiply_packed_part(product_series<T>, const product_part&, const context&);
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cpu
#endif
