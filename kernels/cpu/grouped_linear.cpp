#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/product.hpp"
#include "kernels/cpu/split.hpp"

#include <omp.h>

// The results are cut into parts, which the threads take in turn. One thread computes a part from
// packing to rounding, so threads wait for each other only at the end. With few parts for many
// threads, parts are narrower; each then packs its rows again.
//
// Adjacent groups of one expert are one product in the forward pass and in I: bits do not depend on
// the number of rows, and the weight is packed once. Sums over rows keep their groups.

namespace troupe::kernels::cpu {
namespace {

// Multiply-adds below which waking another thread costs more than it saves.
constexpr std::int64_t grouped_products_worth_a_thread = 1 << 18;
constexpr std::int64_t rows_grain = 32, columns_grain = 64;  ///< parts begin at multiples

constexpr std::int64_t parts_along(std::int64_t n, std::int64_t most) {
  return (n + most - 1) / most;
}

/// The parts of one result, nearly equal.
class result_parts {
 public:
  result_parts(std::int64_t M, std::int64_t N, std::int64_t columns)
      : M_(M), N_(N), high_(parts_along(M, most_rows_of_part)), wide_(parts_along(N, columns)) {}

  std::int64_t count() const { return high_ * wide_; }
  product_part operator[](std::int64_t number) const {
    const auto [row, rows] = piece(M_, high_, number / wide_, rows_grain);
    const auto [column, columns] = piece(N_, wide_, number % wide_, columns_grain);
    return {row, rows, column, columns};
  }

 private:
  struct range {
    std::int64_t begin, n;
  };
  static range piece(std::int64_t n, std::int64_t of, std::int64_t i, std::int64_t grain) {
    const auto begin
        = [=](std::int64_t at) { return std::min(n, parts_along(n * at / of, grain) * grain); };
    return {begin(i), begin(i + 1) - begin(i)};
  }

  std::int64_t M_, N_, high_, wide_;
};

/// Whether a result is a sum over the groups of an expert; else each run of groups has a result.
template <class Op>
constexpr bool sums_groups = requires(Op op) {
  op.dweight;
};

/// The product of a group.
template <class T>
product<T> product_of(const grouped_linear_forward<T>& op, std::int64_t g) {
  const std::int64_t begin = op.groups.offsets[g], e = op.groups.expert[g];
  return {.a = {op.x + begin * op.K, op.K},
          .b = {op.weight + e * op.N * op.K, op.K, true},
          .M = op.groups.rows(g),
          .N = op.N,
          .K = op.K,
          .rounded = op.y + begin * op.N,
          .bias = op.bias ? op.bias + e * op.N : nullptr,
          .row_invariant = op.row_invariant};
}
template <class T>
product<T> product_of(const grouped_linear_backward_input<T>& op, std::int64_t g) {
  const std::int64_t begin = op.groups.offsets[g], e = op.groups.expert[g];
  return {.a = {op.dy + begin * op.N, op.N},
          .b = {op.weight + e * op.N * op.K, op.K},
          .M = op.groups.rows(g),
          .N = op.K,
          .K = op.N,
          .rounded = op.dx + begin * op.K};
}
template <class T>
product<T> product_of(const grouped_linear_backward_weight<T>& op, std::int64_t g) {
  const std::int64_t begin = op.groups.offsets[g], e = op.groups.expert[g];
  return {.a = {op.dy + begin * op.N, op.N, true},
          .b = {op.x + begin * op.K, op.K},
          .M = op.N,
          .N = op.K,
          .K = op.groups.rows(g),
          .c = op.dweight + e * op.N * op.K};
}

/// Whether group g belongs to the product of the one before it. The rows of a group decide whether
/// it is multiplied in tiles, as if it were alone.
template <class Op>
bool joins(const Op& op, std::int64_t g) {
  return g > 0 && op.groups.expert[g] == op.groups.expert[g - 1]
         && in_tiles(product_of(op, g)) == in_tiles(product_of(op, g - 1));
}
/// Rows of the groups that are one product; 0 unless g is the first of them.
template <class Op>
std::int64_t rows_of_run(const Op& op, std::int64_t g) {
  if (joins(op, g))
    return 0;
  std::int64_t rows = op.groups.rows(g);
  while (++g < op.groups.G && joins(op, g))
    rows += op.groups.rows(g);
  return rows;
}

template <class Op>
std::int64_t results_of(const Op& op) {
  return sums_groups<Op> ? op.E : op.groups.G;
}
template <class Op>
result_parts parts_of(const Op& op, std::int64_t result, std::int64_t columns) {
  if constexpr (sums_groups<Op>)
    return {op.N, op.K, columns};
  else
    return {rows_of_run(op, result), product_of(op, result).N, columns};
}

/// How an operation is divided.
struct division {
  std::int64_t columns = most_columns_of_part;  ///< of a part, at most
  std::int64_t parts = 0;
  int threads = 1;
  std::size_t scratch_of_thread = 0;
};

template <class Op>
division divided(const Op& op, int threads) {
  division out;
  const auto count = [&] {
    out.parts = 0;
    for (std::int64_t i = 0; i < results_of(op); ++i)
      out.parts += parts_of(op, i, out.columns).count();
  };
  const auto worth = std::max(op.R, op.E) * op.N * op.K / grouped_products_worth_a_thread;
  const auto most = std::clamp<std::int64_t>(worth, 1, threads);
  for (count(); out.parts < 4 * most && out.columns > columns_grain; count())
    out.columns /= 2;
  out.threads = int(std::clamp<std::int64_t>(out.parts, 1, most));
  std::int64_t deep = 0;  // terms of short groups that are added at once
  for (std::int64_t g = 0; g < op.groups.G && deep < terms_of_series; ++g)
    deep += parts_along(op.groups.rows(g), rows_grain) * rows_grain;
  for (std::int64_t g = 0; g < op.groups.G; ++g) {
    auto p = product_of(op, g);
    const bool tiles = in_tiles(p);
    if constexpr (!sums_groups<Op>)
      p.M = rows_of_run(op, g);
    else if (p.K > 0)
      p.K = std::max(p.K, std::min(deep, terms_of_series));
    if (p.M > 0 && p.K > 0)
      out.scratch_of_thread = std::max(out.scratch_of_thread, part_scratch(p, tiles));
  }
  out.scratch_of_thread = (out.scratch_of_thread + 63) / 64 * 64;
  return out;
}

template <template <class> class Op, class T>
void compute_part(const Op<T>& op, std::int64_t g, const product_part& part, const context& in) {
  auto p = product_of(op, g);
  const bool tiles = in_tiles(p);
  p.M = rows_of_run(op, g);
  multiply_part(product_series<T>(&p, 1), part, tiles, in);
}
template <class T>
void compute_part(const grouped_linear_backward_weight<T>& op,
                  std::int64_t e,
                  const product_part& part,
                  const context& in) {
  bool accumulated = op.accumulates, tiles = false;
  product<T> series[16];
  std::size_t length = 0;
  const auto add = [&] {
    if (length > 0)
      multiply_part(product_series<T>(series, length), part, tiles, in);
    length = 0;
  };
  for (std::int64_t g = 0; g < op.groups.G; ++g) {
    if (op.groups.expert[g] != e || op.groups.rows(g) == 0)
      continue;
    auto p = product_of(op, g);
    p.accumulated = accumulated;
    accumulated = true;
    if (length == std::size(series) || in_tiles(p) != tiles)
      add();
    tiles = in_tiles(p);
    series[length++] = p;
  }
  add();
  if (accumulated)
    return;
  float* const to = op.dweight + e * op.N * op.K + part.column;
  for (std::int64_t n = part.row; n < part.row + part.rows; ++n)
    std::fill_n(to + n * op.K, part.columns, 0.0F);
}

template <class Op>
void compute(const Op& op, const context& in) {
  const division by = divided(op, in.threads);
  const std::size_t bytes = by.scratch_of_thread;
  auto* const memory = scratch_array<std::byte>(in, std::size_t(by.threads) * bytes);
#pragma omp parallel num_threads(by.threads)
  {
    const context mine{1, {memory + std::size_t(omp_get_thread_num()) * bytes, bytes}};
    std::int64_t result = 0, before = 0;  // parts of earlier results; a thread's parts ascend
#pragma omp for schedule(monotonic : dynamic)
    for (std::int64_t n = 0; n < by.parts; ++n) {
      auto parts = parts_of(op, result, by.columns);
      for (; n - before >= parts.count(); parts = parts_of(op, ++result, by.columns))
        before += parts.count();
      compute_part(op, result, parts[n - before], mine);
    }
  }
}

template <class T>
void add_biases(const grouped_linear_backward_weight<T>& op, const context& in) {
  for (std::int64_t e = 0; e < op.E; ++e)
    op.groups.each_of(e, [&](std::int64_t begin, std::int64_t rows, bool first) {
      run(bias_backward<T>{.dbias = op.dbias + e * op.N,
                           .dz = op.dy + begin * op.N,
                           .R = rows,
                           .N = op.N,
                           .accumulates = op.bias_accumulates || !first},
          in);
    });
}

}  // namespace

template <class T>
void run(const grouped_linear_forward<T>& op, const context& in) {
  compute(op, in);
}
template <class T>
void run(const grouped_linear_backward_input<T>& op, const context& in) {
  compute(op, in);
}
template <class T>
void run(const grouped_linear_backward_weight<T>& op, const context& in) {
  compute(op, in);
  if (op.dbias)
    add_biases(op, in);
}

template <class T>
std::size_t scratch(const grouped_linear_forward<T>& op, int threads) {
  const division by = divided(op, threads);
  return std::size_t(by.threads) * by.scratch_of_thread;
}
template <class T>
std::size_t scratch(const grouped_linear_backward_input<T>& op, int threads) {
  const division by = divided(op, threads);
  return std::size_t(by.threads) * by.scratch_of_thread;
}
template <class T>
std::size_t scratch(const grouped_linear_backward_weight<T>& op, int threads) {
  const division by = divided(op, threads);
  return std::size_t(by.threads) * by.scratch_of_thread;
}

#define TROUPE_INSTANTIATE(T)                                                  \
  template void run(const grouped_linear_forward<T>&, const context&);         \
  template void run(const grouped_linear_backward_input<T>&, const context&);  \
  template void run(const grouped_linear_backward_weight<T>&, const context&); \
  template std::size_t scratch(const grouped_linear_forward<T>&, int);         \
  template std::size_t scratch(const grouped_linear_backward_input<T>&, int);  \
  template std::size_t scratch(const grouped_linear_backward_weight<T>&, int);
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cpu
