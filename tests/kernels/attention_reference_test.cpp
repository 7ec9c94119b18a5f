#include "kernels/reference/reference.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <limits>
#include <numeric>

using namespace troupe;
using namespace troupe::tests;
using kernels::reference::run;

namespace {

using memory = attention_memory<double>;

memory fused(bool causal, float p_drop = 0) {
  return {.H = 6,
          .G = 2,
          .D = 5,
          .query_lengths = {3, 1, 4},
          .key_lengths = {3, 1, 4},
          .causal = causal,
          .fused = true,
          .p_drop = p_drop};
}

/// Fewer queries than keys, as with a KV cache, and one sequence with equal numbers.
memory apart(bool causal, float p_drop = 0) {
  return {.H = 4,
          .G = 2,
          .D = 3,
          .Dv = 4,
          .query_lengths = {2, 3, 1},
          .key_lengths = {5, 3, 4},
          .causal = causal,
          .p_drop = p_drop};
}

/// Output and log-sum-exp of a row in textbook form: all scores, then softmax.
std::pair<std::vector<double>, double> by_the_book(const memory& t,
                                                   const kernels::attention_forward<double>& op,
                                                   std::int64_t s,
                                                   std::int64_t i,
                                                   std::int64_t h) {
  const auto per_group = t.H / t.G, g = h / per_group;
  const double* q = op.q + i * t.query_row + g * t.query_group + h % per_group * t.D;
  std::vector<double> exponentials;
  double sum = 0;
  for (std::int64_t j = t.key_starts[s]; j < t.key_starts[s + 1]; ++j) {
    const double* k = op.k + j * t.key_row + g * t.key_group;
    double score = 0;
    for (std::int64_t d = 0; d < t.D; ++d)
      score += double(op.shape.scale) * q[d] * k[d];
    const auto age = t.query_position[i] - t.key_position[j];
    const bool visible = !t.causal || (age >= 0 && (t.window < 0 || age <= t.window));
    exponentials.push_back(visible ? std::exp(score) : 0);
    sum += exponentials.back();
  }
  std::vector<double> o(std::size_t(t.Dv), 0.0);
  for (std::size_t n = 0; n < exponentials.size(); ++n) {
    const double* v = op.v + (t.key_starts[s] + std::int64_t(n)) * t.value_row + g * t.value_group;
    for (std::int64_t d = 0; d < t.Dv; ++d)
      o[std::size_t(d)] += exponentials[n] / sum * v[d];
  }
  return {o, std::log(sum)};
}

}  // namespace

TEST_CASE("attention is softmax of scaled products, causal or not, fused or separate",
          "[kernels][reference][attention]") {
  const auto causal = GENERATE(true, false);
  auto t = GENERATE_COPY(fused(causal), apart(causal));
  t.window = GENERATE(-1, 0, 2);
  run(t.forward());
  const auto op = t.forward();
  std::vector<double> o, lse(t.lse.size());
  for (std::int64_t s = 0; s < op.shape.S; ++s) {
    for (std::int64_t i = t.query_starts[s]; i < t.query_starts[s + 1]; ++i) {
      for (std::int64_t h = 0; h < t.H; ++h) {
        const auto [row, row_lse] = by_the_book(t, op, s, i, h);
        o.insert(o.end(), row.begin(), row.end());
        const auto at = kernels::lse_at(t.H, t.query_starts[s], t.query_starts[s + 1], h, i);
        lse[std::size_t(at)] = row_lse;
      }
    }
  }
  CHECK(relative_error(t.o, o) < 1e-14);       // the same formula in another order
  CHECK(relative_error(t.lse, lse) < 1.2e-7);  // stored as float
}

TEST_CASE("log-sum-exp is stored head by head within each sequence", "[kernels][attention]") {
  // Sequences of 2 and 3 rows with 3 heads: heads of rows 0 and 1, then heads of rows 2 to 4.
  std::vector<std::int64_t> found;
  for (const auto& [begin, end] : {std::pair(0, 2), std::pair(2, 5)})
    for (std::int64_t h = 0; h < 3; ++h)
      for (std::int64_t i = begin; i < end; ++i)
        found.push_back(kernels::lse_at(3, begin, end, h, i));
  std::vector<std::int64_t> in_order(15);
  std::iota(in_order.begin(), in_order.end(), 0);
  CHECK(found == in_order);
}

TEST_CASE("a query row that sees no key has zero output, zero gradient and lse of -infinity",
          "[kernels][reference][attention]") {
  memory t{.H = 2, .G = 1, .D = 3, .query_lengths = {3}, .key_lengths = {1}};
  t.query_position = {0, 1, 2};
  t.key_position = {1};
  run(t.forward());
  run(t.backward());
  for (std::size_t h = 0; h < 2; ++h) {
    CHECK(t.lse[3 * h] == -std::numeric_limits<float>::infinity());
    for (std::size_t d = 0; d < 3; ++d) {
      CHECK(t.o[3 * h + d] == 0);
      CHECK(t.dq[3 * h + d] == 0);
      CHECK(t.o[6 + 3 * h + d] == t.v[d]);  // the next row sees exactly one key
    }
  }
}

TEST_CASE("keys hidden from all queries have zero gradients", "[kernels][reference][attention]") {
  memory t{.H = 2, .G = 1, .D = 3, .query_lengths = {1, 0}, .key_lengths = {2, 2}};
  t.query_position = {0};
  run(t.forward());
  run(t.backward());
  for (std::size_t i = 3; i < t.dk.size(); ++i) {
    CHECK(t.dk[i] == 0);
    CHECK(t.dv[i] == 0);
  }
  CHECK(t.dv[0] != 0);
}

TEST_CASE("a packed sequence gives the same result as alone, including dropout",
          "[kernels][reference][attention]") {
  auto packed = fused(true, 0.3f);
  memory alone{.H = 6,
               .G = 2,
               .D = 5,
               .query_lengths = {4},
               .key_lengths = {4},
               .fused = true,
               .p_drop = 0.3f};
  alone.sample = {packed.sample[2]};
  std::copy(packed.q.end() - std::ptrdiff_t(alone.q.size()), packed.q.end(), alone.q.begin());
  run(packed.forward());
  run(alone.forward());
  CHECK(std::equal(alone.o.rbegin(), alone.o.rend(), packed.o.rbegin()));
  CHECK(std::equal(alone.lse.rbegin(), alone.lse.rend(), packed.lse.rbegin()));
}

TEST_CASE("the last queries over cached keys give the last rows of the whole, including dropout",
          "[kernels][reference][attention]") {
  memory whole{.H = 4, .G = 2, .D = 3, .query_lengths = {5}, .key_lengths = {5}, .p_drop = 0.3f};
  memory last{.H = 4, .G = 2, .D = 3, .query_lengths = {2}, .key_lengths = {5}, .p_drop = 0.3f};
  std::copy(whole.q.end() - std::ptrdiff_t(last.q.size()), whole.q.end(), last.q.begin());
  run(whole.forward());
  run(last.forward());
  CHECK(std::equal(last.o.rbegin(), last.o.rend(), whole.o.rbegin()));
}

TEST_CASE("attention drops probabilities at the given rate and keeps their mean",
          "[kernels][reference][attention]") {
  // Zero queries make all probabilities 1 / 200. With values of 1, o is the mean factor of a row.
  memory t{.H = 4,
           .G = 4,
           .D = 1,
           .query_lengths = {200},
           .key_lengths = {200},
           .causal = false,
           .p_drop = 0.25f};
  std::fill(t.q.begin(), t.q.end(), 0.0);
  std::fill(t.v.begin(), t.v.end(), 1.0);
  run(t.forward());
  double sum = 0;
  for (const auto o : t.o)
    sum += o;
  const double n = 4 * 200 * 200, p = 0.25;
  const double deviation = std::sqrt(p * (1 - p) / n) / (1 - p);
  CHECK(std::abs(sum / 800 - 1) < 5 * deviation);  // five standard deviations, fixed seed
  CHECK(t.o[0] != t.o[1]);                         // heads have different masks
  CHECK(t.o[0] != t.o[4]);                         // rows have different masks
}
