#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"
#include "kernels/cpu/tiled_product.hpp"

#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tile_product.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/tile_few_rows-inl.hpp"
#include "kernels/cpu/tile_panels-inl.hpp"
#include "kernels/cpu/tile_result-inl.hpp"
// clang-format on

// Computes c in blocks of 32 x 32, four result tiles, each step with two tiles of a and two of b.
// This loads one tile per multiplication, which is the limit of the L1 cache. float multiplies its
// pieces (amx.hpp) with each other: 14 loads for 24 multiplications. Loads determine the speed:
//
// - A bf16 panel of b (32 columns, up to 512 terms) stays in the L1 cache (32 kB) while panels of a
//   stream past it. The panels of a come from the L2 cache by TILELOADDT1, which leaves L1
//   unchanged. A float panel does not fit; smaller panels took 3 to 7 % longer because more sums
//   had to be stored.
// - Longer sums are kept in the L2 cache, block by block. A part of c that fits there passes
//   through all terms before the next part.
// - Vector code finishes a block (bias, activation, rounding, stores) a few rows at a time,
//   overlapped with the tiles of the next block.

#ifdef TROUPE_TILES
HWY_PUSH_ATTRIBUTES(TROUPE_TILE_ATTRIBUTES)
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {
/// Cache lines to prefetch, a few at a time.
struct upcoming_lines {
  const char* next;
  std::int64_t apart;  ///< bytes between lines
  int lines_at_once;

  HWY_INLINE void some() {
    for (int n = 0; n < lines_at_once; ++n, next += apart)
      _mm_prefetch(next, _MM_HINT_T1);
  }
};

HWY_INLINE void load_rows(const std::byte* piece, std::int64_t row = 64) {
  _tile_stream_loadd(4, piece, row);
  _tile_stream_loadd(5, piece + 16 * row, row);
}
HWY_INLINE void load_columns(const std::byte* piece) {
  _tile_loadd(6, piece, 64);
  _tile_loadd(7, piece + tile_bytes, 64);
}
HWY_INLINE void multiply_loaded() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

HWY_INLINE void multiply_squares(const std::byte* a, std::int64_t row, const std::byte* b, bf16) {
  load_rows(a, row);
  load_columns(b);
  multiply_loaded();
}
/// Exchanges one piece at a time.
HWY_INLINE void multiply_squares(const std::byte* a, std::int64_t, const std::byte* b, float) {
  const auto piece = [](int n) { return n * square_bytes<bf16>; };
  load_rows(a);
  load_columns(b + piece(2));
  multiply_loaded();
  load_columns(b + piece(1));
  multiply_loaded();
  load_rows(a + piece(1));
  multiply_loaded();
  load_columns(b);
  multiply_loaded();
  load_rows(a + piece(2));
  multiply_loaded();
  load_rows(a);
  multiply_loaded();
}

/// Computes a block of sums (32, 32): adds `steps` times 32 terms to `before`, or to zero if null.
template <class T, class Activation>
HWY_INLINE void multiply_block(typename tiled<T>::squares_of_a a,
                               const std::byte* b,
                               std::int64_t steps,
                               const float* before,
                               float* sums,
                               outgoing<T, Activation>& last,
                               int rows_at_once,
                               upcoming_lines panel) {
  constexpr int row = block_side * sizeof(float);
  if (before) {
    _tile_loadd(0, before, row);
    _tile_loadd(1, before + 16, row);
    _tile_loadd(2, before + 16 * block_side, row);
    _tile_loadd(3, before + 16 * block_side + 16, row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t s = 0; s < steps; ++s, a.at += a.next, b += square_bytes<T>) {
    multiply_squares(a.at, a.row, b, T());
    panel.some();
    last.some(rows_at_once);
  }
  _tile_stored(0, sums, row);
  _tile_stored(1, sums + 16, row);
  _tile_stored(2, sums + 16 * block_side, row);
  _tile_stored(3, sums + 16 * block_side + 16, row);
}

/// Ranges of row and column panels, and the location of their sums.
struct near_part {
  std::int64_t begin, end, first, last;
  float* sums;
  std::int64_t column;  ///< blocks per column of sums

  float* waiting(std::int64_t i, std::int64_t j) const {
    return sums + ((j - first) * column + i - begin) * block_floats;
  }
};

/// Adds all current terms to the blocks of a near part.
template <class T, class Activation>
void multiply_near(const tiled<T>& at,
                   const near_part& part,
                   outgoing<T, Activation>& out,
                   float (&finished)[2][block_floats]) {
  const depth cut(at.terms);
  int turn = 0;
  for (std::int64_t t = 0; t < at.terms; t += cut.terms) {
    const std::int64_t steps = panels_of(std::min(cut.terms, at.terms - t));
    const bool complete = at.last && t + cut.terms >= at.terms;
    const bool begun = !at.first || t > 0;
    const std::int64_t high = part.end - part.begin;
    const int lines = int((square_bytes<T> / 64 + high - 1) / high);
    const int rows_at_once = int((block_side + steps - 1) / steps);
    for (std::int64_t j = part.first; j < part.last; ++j) {
      const auto* next = reinterpret_cast<const char*>(at.b(t, steps, j + 1));
      for (std::int64_t i = part.begin; i < part.end; ++i) {
        float* const waiting = part.waiting(i, j);
        float* const to = complete ? finished[turn] : waiting;
        const std::int64_t row = at.row + i * block_side, column = at.column + j * block_side;
        if (complete && !at.turned)
          out.expect(row, column);
        multiply_block(at.a(t, steps, i),
                       at.b(t, steps, j),
                       steps,
                       begun ? waiting : nullptr,
                       to,
                       out,
                       rows_at_once,
                       {next, 64, lines});
        next += lines * 64 * steps;
        if (complete && at.turned) {
          out.rest();
          transpose_block(to, finished[1]);
          out.begin(finished[1], column, row);
        } else if (complete) {
          out.begin(to, row, column);
          turn = 1 - turn;
        }
      }
    }
  }
  out.rest();
}

/// Packs `n` rows of a (columns of b) of short products, counted from `first`, side by side: each
/// product has `terms` terms of a square.
template <pack_step Pack>
void pack_together(product_series<bf16> all,
                   operand<bf16> product<bf16>::*factor,
                   std::int64_t first,
                   std::int64_t n,
                   std::int64_t terms,
                   std::byte* to) {
  alignas(64) bf16 square[block_side * block_side] = {};
  for (std::int64_t at = 0; at < n; at += block_side, to += square_bytes<bf16>) {
    bf16* of_product = square;
    for (const auto& p : all) {
      const bf16* from = (p.*factor).data + first + at;
      for (std::int64_t t = 0; t < p.K; ++t, from += (p.*factor).row)
        std::copy_n(from, std::min(block_side, n - at), of_product + t * block_side);
      of_product += terms * block_side;
    }
    Pack(square, block_side, to);
  }
}
inline void pack_together(product_series<bf16> all,
                          const product_part& part,
                          std::int64_t terms,
                          std::byte* a,
                          std::byte* b) {
  pack_together<pack_terms_of_a>(all, &product<bf16>::a, part.row, part.rows, terms, a);
  pack_together<pack_terms_of_b>(all, &product<bf16>::b, part.column, part.columns, terms, b);
}

/// Adds the products of a series, whose factors are packed, to the part. The sums of a block are
/// added in the L1 cache, a few products at a time. A tile has `terms_of_tile` terms.
template <class T>
void multiply_series(std::span<const tiled<T>> all, std::int64_t terms_of_tile) {
  asm volatile("" ::: "memory");  // completes the packing stores first
  const tiles_in_use tiles(terms_of_tile);
  const tiled<T>& part = all.front();
  outgoing<T, no_activation> out(part.of);
  constexpr std::size_t at_once = out.most_added;
  alignas(64) float sums[2][at_once * block_floats], total[block_floats];
  int turn = 0;
  for (std::int64_t j = 0; j < panels_of(part.columns); ++j)
    for (std::int64_t i = 0; i < panels_of(part.rows); ++i) {
      const std::int64_t row = part.row + i * block_side, column = part.column + j * block_side;
      out.expect(row, column);
      for (std::size_t first = 0; first < all.size(); first += at_once) {
        const auto some = all.subspan(first, std::min(at_once, all.size() - first));
        float* to = sums[turn];
        for (const tiled<T>& at : some) {
          const std::int64_t steps = panels_of(at.terms);
          const auto rows = block_side / (steps * std::int64_t(some.size())) + 1;
          multiply_block(at.a(0, steps, i),
                         at.b(0, steps, j),
                         steps,
                         nullptr,
                         to,
                         out,
                         int(rows),
                         upcoming_lines{nullptr, 0, 0});
          to += block_floats;
        }
        out.add(sums[turn],
                int(some.size()),
                total,
                first > 0,
                first + some.size() == all.size(),
                row,
                column);
        turn = 1 - turn;
      }
    }
  out.rest();
  _mm_sfence();  // orders non-temporal stores before any later signal
}

template <class T, class Activation>
void multiply_panels(const tiled<T>& at, const near_part& all) {
  // gcc ignores that tile loads read memory: completes the packing stores first.
  asm volatile("" ::: "memory");
  const tiles_in_use tiles;
  alignas(64) float finished[2][block_floats];
  outgoing<T, Activation> out(at.turned ? *at.turned : at.of);
  constexpr std::int64_t high = near_rows / block_side, wide = near_columns / block_side;
  for (std::int64_t i = all.begin; i < all.end; i += high)
    for (std::int64_t j = all.first; j < all.last; j += wide)
      multiply_near(at,
                    {.begin = i,
                     .end = std::min(all.end, i + high),
                     .first = j,
                     .last = std::min(all.last, j + wide),
                     .sums = at.all_terms() ? all.sums : all.waiting(i, j),
                     .column = all.column},
                    out,
                    finished);
  _mm_sfence();  // orders non-temporal stores before any later signal
}

/// Multiplies row panels [begin, end) and column panels [first, last) of the current part. `number`
/// is the index of this thread's part.
template <class T>
void multiply_panels(const tiled<T>& at,
                     std::int64_t begin,
                     std::int64_t end,
                     std::int64_t first,
                     std::int64_t last,
                     std::int64_t number) {
  near_part all{begin, end, first, last, nullptr, near_rows / block_side};
  if (at.all_terms()) {
    all.sums = at.sums + number * near_rows * near_columns;
  } else {
    all.column = panels_of(at.rows);
    const std::int64_t before = (at.column - at.first_column) / block_side;
    all.sums = at.sums + ((before + first) * all.column + begin) * block_floats;
  }
  if (at.of.activation == epilogue::none)
    return multiply_panels<T, no_activation>(at, all);
  with_functions_of(activation_of(at.of.activation), [&](auto functions) TROUPE_TILE_ATTR {
    multiply_panels<T, decltype(functions)>(at, all);
  });
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class>
bool has_tiles() {
#ifdef TROUPE_TILES
  return true;
#else
  return false;
#endif
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

#if HWY_TARGETS & HWY_AVX3
namespace {

/// Multiplies the current rows, columns and terms with a team. Threads share the packed data. b is
/// packed in short ranges, and the next range is packed while the current one is multiplied.
template <class T>
void multiply_terms(const tiled<T>& at, int threads) {
  const std::int64_t high = panels_of(at.rows), end = at.column + at.columns;
  const std::int64_t most = panels_of(std::min(at.columns, most_columns));
  // Divides rows if there are enough, otherwise columns.
  const bool by_rows = high >= 4 * threads || high >= most;
  const std::int64_t parts = std::min<std::int64_t>(threads, by_rows ? high : most);
  const auto columns_from = [&](std::int64_t column) {
    tiled<T> now = at;
    now.column = column;
    now.columns = std::min(most_columns, end - column);
    if ((column - at.column) / most_columns % 2 == 1)
      now.packed_b += most * panels_of(at.terms) * square_bytes<T>;
    return now;
  };
  // The loops have no implicit barrier, so a thread can pack while another multiplies; an explicit
  // barrier follows.
  const auto pack_columns = [&](const tiled<T>& now) {
    const std::int64_t wide = panels_of(now.columns);
#pragma omp for schedule(static) nowait
    for (std::int64_t p = 0; p < parts; ++p)
      N_AVX3::pack_b(now, wide * p / parts, wide * (p + 1) / parts);
  };
#pragma omp parallel num_threads(int(parts))
  {
#pragma omp for schedule(static) nowait
    for (std::int64_t p = 0; p < parts; ++p)
      N_AVX3::pack_a(at, high * p / parts, high * (p + 1) / parts);
    pack_columns(columns_from(at.column));
#pragma omp barrier
    for (std::int64_t column = at.column; column < end; column += most_columns) {
      const tiled<T> now = columns_from(column);
      const std::int64_t wide = panels_of(now.columns);
      if (column + most_columns < end)
        pack_columns(columns_from(column + most_columns));
#pragma omp for schedule(static)
      for (std::int64_t p = 0; p < parts; ++p) {
        if (by_rows)
          N_AVX3::multiply_panels(now, high * p / parts, high * (p + 1) / parts, 0, wide, p);
        else
          N_AVX3::multiply_panels(now, 0, high, wide * p / parts, wide * (p + 1) / parts, p);
      }
    }
  }
}

// Bytes of the packed factors and of the sums.
struct tiled_scratch {
  std::size_t a, b, sums;

  template <class T>
  tiled_scratch(const product<T>& p, int threads) {
    const std::int64_t rows = panels_of(std::min(p.M, most_rows));
    const std::int64_t columns = panels_of(std::min(p.N, most_columns));
    const std::int64_t steps = panels_of(std::min(p.K, most_terms<T>));
    a = std::size_t(rows * steps * square_bytes<T>);
    b = std::size_t((p.N > most_columns ? 2 : 1) * columns * steps * square_bytes<T>);
    const std::int64_t near = threads * near_rows * near_columns;
    const std::int64_t all = rows * panels_of(std::min(p.N, columns_of_sums)) * block_floats;
    sums = p.K <= terms_of_panel ? 0
                                 : sizeof(float) * std::size_t(p.K <= most_terms<T> ? near : all);
  }
};

/// True if b is read once, in place (tile_few_rows-inl.hpp).
bool reads_where_it_lies(const product<bf16>& p) {
  return p.M <= most_rows_unpacked && !p.a.transposed && p.b.transposed && !p.accumulated;
}

std::size_t few_rows_in_tiles_scratch(const product<bf16>& p) {
  return std::size_t(panels_of(p.K) * square_bytes<bf16>);
}

void multiply_few_rows_in_tiles(const product<bf16>& p, const context& in) {
  auto* const packed = scratch_array<std::byte>(in, few_rows_in_tiles_scratch(p));
  const std::int64_t steps = panels_of(p.K), wide = panels_of(p.N);
  const auto parts = std::min<std::int64_t>(in.threads, wide);
#pragma omp parallel num_threads(int(parts))
  {
#pragma omp for schedule(static)
    for (std::int64_t n = 0; n < parts; ++n)
      N_AVX3::pack_few_rows(p, packed, steps * n / parts, steps * (n + 1) / parts);
#pragma omp for schedule(static) nowait
    for (std::int64_t n = 0; n < parts; ++n)
      N_AVX3::multiply_few_columns(p, packed, wide * n / parts, wide * (n + 1) / parts);
  }
}

/// True if a part is computed transposed, which reads b in place. A weight of floats must be split.
template <class T>
bool is_turned(const product<T>& p) {
  return std::is_same_v<T, bf16> && p.b.transposed && !p.a.transposed && p.N % block_side == 0
         && p.K % block_side == 0;
}

/// The largest part of a product, as a product of its own.
template <class T>
product<T> largest_part(product<T> p) {
  p.M = std::min(p.M, most_rows_of_part);
  p.N = std::min(p.N, most_columns_of_part);
  return p;
}

}  // namespace

TROUPE_EXPORT(has_tiles);

template <class T>
bool has_tiles_of() {
  return !std::is_same_v<T, f16> && multiplies_tiles() && TROUPE_DISPATCH(has_tiles, T)();
}

template <class T>
std::size_t tiles_scratch(const product<T>& p, int threads) {
  if constexpr (std::is_same_v<T, bf16>)
    if (reads_where_it_lies(p))
      return few_rows_in_tiles_scratch(p);
  const tiled_scratch of(p, threads);
  return of.a + of.b + of.sums;
}

template <class T>
void multiply_in_tiles(const product<T>& p, const context& in) {
  if constexpr (std::is_same_v<T, bf16>)
    if (reads_where_it_lies(p))
      return multiply_few_rows_in_tiles(p, in);
  const tiled_scratch of(p, in.threads);
  auto* const memory = scratch_array<std::byte>(in, of.a + of.b + of.sums);
  tiled<T> at{.of = p,
              .packed_a = memory,
              .packed_b = memory + of.a,
              .sums = reinterpret_cast<float*>(memory + of.a + of.b)};
  for (; at.row < p.M; at.row += at.rows) {
    at.rows = std::min(most_rows, p.M - at.row);
    for (at.column = 0; at.column < p.N; at.column += at.columns) {
      at.columns = std::min(columns_of_sums, p.N - at.column);
      at.first_column = at.column;
      for (at.term = 0; at.term < p.K; at.term += at.terms) {
        at.terms = std::min(most_terms<T>, p.K - at.term);
        at.first = at.term == 0;
        at.last = at.term + at.terms == p.K;
        multiply_terms(at, in.threads);
      }
    }
  }
}

template <class T>
std::size_t tiles_part_scratch(const product<T>& p) {
  return tiles_scratch(largest_part(p), 1);
}

namespace {

constexpr std::int64_t steps_of_series = terms_of_series / block_side;

/// The number of leading products of a series that are added at once; 1 for a long one.
template <class T>
std::size_t short_products(product_series<T> all, std::int64_t& steps) {
  std::size_t n = 0;
  for (steps = 0; n < all.size() && steps + panels_of(all[n].K) <= steps_of_series; ++n)
    steps += panels_of(all[n].K);
  return std::max<std::size_t>(n, 1);
}

/// Terms of a tile for a series. With fewer than 32, products share the squares of packed factors.
template <class T>
std::int64_t terms_of_tile(product_series<T> all) {
  std::int64_t longest = 0;
  for (const auto& p : all)
    longest = std::max(longest, p.K);
  return !std::is_same_v<T, bf16> || longest > 16 ? block_side : longest > 8 ? 16 : 8;
}

template <class T>
void multiply_short_products(product_series<T> all,
                             std::int64_t steps,
                             const product_part& part,
                             const context& in) {
  const std::int64_t high = panels_of(part.rows), wide = panels_of(part.columns);
  const std::int64_t bytes = steps * square_bytes<T>;
  auto* a = scratch_array<std::byte>(in, std::size_t((high + wide) * bytes));
  auto* b = a + high * bytes;
  const std::int64_t terms = terms_of_tile(all);
  const auto per_square = std::size_t(block_side / terms);
  std::vector<tiled<T>> packed;
  for (; !all.empty(); all = all.subspan(std::min(per_square, all.size()))) {
    const auto some = all.first(std::min(per_square, all.size()));
    for (std::int64_t n = 0; const auto& p : some) {
      packed.push_back({.of = p,
                        .packed_a = a + n * std::int64_t{sizeof(T)},
                        .packed_b = b + n / 2 * 64,
                        .sums = nullptr,
                        .row = part.row,
                        .rows = part.rows,
                        .column = part.column,
                        .columns = part.columns,
                        .terms = p.K});
      n += terms;
    }
    const tiled<T>& first = packed[packed.size() - some.size()];
    if constexpr (std::is_same_v<T, bf16>)
      if (per_square > 1)
        N_AVX3::pack_together(some, part, terms, a, b);
    if (per_square == 1) {
      N_AVX3::pack_a(first, 0, high);
      N_AVX3::pack_b(first, 0, wide);
    }
    a += high * panels_of(first.terms) * square_bytes<T>;
    b += wide * panels_of(first.terms) * square_bytes<T>;
  }
  N_AVX3::multiply_series(std::span<const tiled<T>>(packed), terms);
}

template <class T>
void multiply_one_part(const product<T>& p, const product_part& part, const context& in) {
  auto* const memory = scratch_array<std::byte>(in, tiles_part_scratch(p));
  if constexpr (std::is_same_v<T, bf16>)
    if (reads_where_it_lies(p)) {
      N_AVX3::pack_few_rows(p, memory, 0, panels_of(p.K));
      return N_AVX3::multiply_few_columns(
          p, memory, part.column / block_side, panels_of(part.column + part.columns));
    }
  const bool turned = is_turned(p);
  const product<T> transposed{{p.b.data, p.b.row}, {p.a.data, p.a.row, true}, p.N, p.M, p.K};
  const tiled_scratch of(largest_part(p), 1);  // the rows of p are packed first, turned or not
  tiled<T> at{.of = turned ? transposed : p,
              .packed_a = memory,
              .packed_b = turned ? memory : memory + of.a,
              .sums = reinterpret_cast<float*>(memory + of.a + of.b),
              .row = turned ? part.column : part.row,
              .rows = turned ? part.columns : part.rows,
              .turned = turned ? &p : nullptr};
  const std::int64_t high = panels_of(at.rows), first = turned ? part.row : part.column;
  const std::int64_t end = first + (turned ? part.rows : part.columns);
  at.first_column = first;
  for (; at.term < p.K; at.term += at.terms) {
    at.terms = std::min(most_terms<T>, p.K - at.term);
    at.first = at.term == 0;
    at.last = at.term + at.terms == p.K;
    if (!turned)
      N_AVX3::pack_a(at, 0, high);
    for (at.column = first; at.column < end; at.column += at.columns) {
      at.columns = std::min(columns_nearby, end - at.column);
      N_AVX3::pack_b(at, 0, panels_of(at.columns));
      N_AVX3::multiply_panels(at, 0, high, 0, panels_of(at.columns), 0);
    }
  }
}

}  // namespace

template <class T>
void multiply_part_in_tiles(product_series<T> all, const product_part& part, const context& in) {
  while (!all.empty()) {
    std::int64_t steps = 0;
    const std::size_t n = short_products(all, steps);
    if (n > 1)
      multiply_short_products(all.first(n), steps, part, in);
    else
      multiply_one_part(all.front(), part, in);
    all = all.subspan(n);
  }
}

#else
template <class T>
bool has_tiles_of() {
  return false;
}
template <class T>
std::size_t tiles_part_scratch(const product<T>&) {
  return 0;
}
template <class T>
void multiply_part_in_tiles(product_series<T>, const product_part&, const context&) {
  throw std::logic_error("this processor has no AMX tiles");
}
template <class T>
std::size_t tiles_scratch(const product<T>&, int) {
  return 0;
}
template <class T>
void multiply_in_tiles(const product<T>&, const context&) {
  throw std::logic_error("this processor has no AMX tiles");
}
#endif

template bool has_tiles_of<float>();
template bool has_tiles_of<bf16>();
template bool has_tiles_of<f16>();
template std::size_t tiles_scratch(const product<float>&, int);
template std::size_t tiles_scratch(const product<bf16>&, int);
template void multiply_in_tiles(const product<float>&, const context&);
template void multiply_in_tiles(const product<bf16>&, const context&);
template std::size_t tiles_part_scratch(const product<float>&);
template std::size_t tiles_part_scratch(const product<bf16>&);
template void multiply_part_in_tiles(product_series<float>, const product_part&, const context&);
template void multiply_part_in_tiles(product_series<bf16>, const product_part&, const context&);

}  // namespace troupe::kernels::cpu
#endif
