// Attention in bf16 and f16 against the judge in double, on the same numbers.

#include "kernels/reference/reference.hpp"
#include "tests/support/narrow.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>

using namespace troupe;
using kernels::bf16;
using kernels::f16;
using tests::beyond_rounding;
using tests::exactly;
using tests::on_cpu;
template <class T>
using memory = tests::attention_memory<T>;

namespace {

// Beside the one rounding of each result, sums in float, as attention in float has them.
constexpr double tolerance = 2e-6;

template <class T>
tests::attention_memory<double> in_double(const memory<T>& m) {
  tests::attention_memory<double> out{.H = m.H,
                                      .G = m.G,
                                      .D = m.D,
                                      .query_lengths = m.query_lengths,
                                      .key_lengths = m.key_lengths,
                                      .causal = m.causal,
                                      .fused = m.fused,
                                      .p_drop = m.p_drop,
                                      .window = m.window};
  out.q = exactly(m.q);
  out.k = exactly(m.k);
  out.v = exactly(m.v);
  out.d_o = exactly(m.d_o);
  return out;
}

template <class T>
memory<T> computed(memory<T> m, int threads) {
  on_cpu(m.forward(), threads);
  on_cpu(m.backward(), threads);
  return m;
}

template <class T>
bool same_bits(const memory<T>& a, const memory<T>& b) {
  return a.o == b.o && a.lse == b.lse && a.dq == b.dq && a.dk == b.dk && a.dv == b.dv;
}

template <class T>
void check(const memory<T>& m) {
  auto judge = in_double(m);
  kernels::reference::run(judge.forward());
  for (const int threads : {1, 2, 3}) {  // 2 and more cut a sequence: parts of dq are summed
    const auto mine = computed(m, threads);
    INFO("threads " << threads);
    CHECK(beyond_rounding(mine.o, judge.o) < tolerance);
    CHECK(tests::relative_error(mine.lse, judge.lse) < tolerance);
    // The backward pass starts from the rounded output.
    auto back = judge;
    back.o = exactly(mine.o);
    kernels::reference::run(back.backward());
    CHECK(beyond_rounding(mine.dq, back.dq) < tolerance);
    CHECK(beyond_rounding(mine.dk, back.dk) < tolerance);
    CHECK(beyond_rounding(mine.dv, back.dv) < tolerance);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("cpu attention in a narrow type is that in double, rounded once",
                   "[kernels][attention][narrow]",
                   bf16,
                   f16) {
  for (const std::int64_t D : {1, 3, 16, 20, 64, 131}) {
    INFO("D " << D);
    check<TestType>({.H = 2, .G = 2, .D = D, .query_lengths = {71}, .key_lengths = {71}});
  }
  for (const std::int32_t T : {1, 5, 64, 65, 200}) {
    INFO("T " << T);
    check<TestType>({.H = 1, .G = 1, .D = 16, .query_lengths = {T, 40}, .key_lengths = {T, 40}});
  }
}

TEMPLATE_TEST_CASE(
    "cpu attention in a narrow type of grouped queries in packed sequences and one fused product",
    "[kernels][attention][narrow]",
    bf16,
    f16) {
  for (const std::int32_t window : {-1, 37}) {
    check<TestType>({.H = 6,
                     .G = 2,
                     .D = 32,
                     .query_lengths = {5, 130, 1, 67},
                     .key_lengths = {5, 130, 1, 67},
                     .fused = true,
                     .p_drop = 0.25f,
                     .window = window});
  }
}

TEMPLATE_TEST_CASE("cpu attention in a narrow type decodes: few queries, many keys",
                   "[kernels][attention][narrow]",
                   bf16,
                   f16) {
  for (const std::int64_t D : {20, 64}) {
    for (const std::int32_t window : {-1, 37}) {
      check<TestType>({.H = 4,
                       .G = 2,
                       .D = D,
                       .query_lengths = {1, 4, 2},
                       .key_lengths = {300, 64, 65},
                       .window = window});
      check<TestType>({.H = 4,
                       .G = 2,
                       .D = D,
                       .query_lengths = {7},
                       .key_lengths = {200},
                       .causal = window > 0,
                       .window = window});
    }
  }
}

TEMPLATE_TEST_CASE(
    "cpu attention in a narrow type gives the same bits again, and in forward for any number of "
    "threads",
    "[kernels][attention][narrow]",
    bf16,
    f16) {
  const memory<TestType> m{.H = 2,
                           .G = 1,
                           .D = 64,
                           .query_lengths = {257},
                           .key_lengths = {257},
                           .fused = true,
                           .p_drop = 0.1f};
  const auto one = computed(m, 1), two = computed(m, 2);
  CHECK(same_bits(one, computed(m, 1)));
  CHECK(same_bits(two, computed(m, 2)));
  CHECK(one.o == two.o);
  CHECK(one.lse == two.lse);
}

TEMPLATE_TEST_CASE("the judge computes attention in a narrow type on promoted numbers",
                   "[kernels][reference][attention][narrow]",
                   bf16,
                   f16) {
  memory<TestType> m{
      .H = 2, .G = 1, .D = 5, .query_lengths = {9}, .key_lengths = {9}, .p_drop = 0.2f};
  auto judge = in_double(m);
  kernels::reference::run(m.forward());
  kernels::reference::run(judge.forward());
  CHECK(beyond_rounding(m.o, judge.o) == 0);
  CHECK(m.lse == judge.lse);
  judge.o = exactly(m.o);
  kernels::reference::run(m.backward());
  kernels::reference::run(judge.backward());
  CHECK(beyond_rounding(m.dq, judge.dq) == 0);
  CHECK(beyond_rounding(m.dk, judge.dk) == 0);
  CHECK(beyond_rounding(m.dv, judge.dv) == 0);
}
