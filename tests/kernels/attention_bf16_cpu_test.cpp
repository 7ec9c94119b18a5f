// Attention in bf16 against the judge in double, on the same numbers.

#include "kernels/reference/reference.hpp"
#include "tests/support/bf16.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using kernels::bf16;
using tests::beyond_rounding;
using tests::exactly;
using tests::on_cpu;
using memory = tests::attention_memory<bf16>;

namespace {

// Beside the one rounding of each result, sums in float, as attention in float has them.
constexpr double tolerance = 2e-6;

tests::attention_memory<double> in_double(const memory& m) {
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

memory computed(memory m, int threads) {
  on_cpu(m.forward(), threads);
  on_cpu(m.backward(), threads);
  return m;
}

bool same_bits(const memory& a, const memory& b) {
  return a.o == b.o && a.lse == b.lse && a.dq == b.dq && a.dk == b.dk && a.dv == b.dv;
}

void check(const memory& m) {
  auto judge = in_double(m);
  kernels::reference::run(judge.forward());
  for (const int threads : {1, 2, 3}) {  // 2 and more cut a sequence: parts of dq are summed
    const memory mine = computed(m, threads);
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

TEST_CASE("cpu attention in bf16 is that in double, rounded once", "[kernels][attention][bf16]") {
  for (const std::int64_t D : {1, 3, 16, 20, 64, 131}) {
    INFO("D " << D);
    check({.H = 2, .G = 2, .D = D, .query_lengths = {71}, .key_lengths = {71}});
  }
  for (const std::int32_t T : {1, 5, 64, 65, 200}) {
    INFO("T " << T);
    check({.H = 1, .G = 1, .D = 16, .query_lengths = {T, 40}, .key_lengths = {T, 40}});
  }
}

TEST_CASE("cpu attention in bf16 of grouped queries in packed sequences and one fused product",
          "[kernels][attention][bf16]") {
  for (const std::int32_t window : {-1, 37}) {
    check({.H = 6,
           .G = 2,
           .D = 32,
           .query_lengths = {5, 130, 1, 67},
           .key_lengths = {5, 130, 1, 67},
           .fused = true,
           .p_drop = 0.25f,
           .window = window});
  }
}

TEST_CASE("cpu attention in bf16 decodes: few queries, many keys", "[kernels][attention][bf16]") {
  for (const std::int64_t D : {20, 64}) {
    for (const std::int32_t window : {-1, 37}) {
      check({.H = 4,
             .G = 2,
             .D = D,
             .query_lengths = {1, 4, 2},
             .key_lengths = {300, 64, 65},
             .window = window});
      check({.H = 4,
             .G = 2,
             .D = D,
             .query_lengths = {7},
             .key_lengths = {200},
             .causal = window > 0,
             .window = window});
    }
  }
}

TEST_CASE(
    "cpu attention in bf16 gives the same bits again, and in forward for any number of "
    "threads",
    "[kernels][attention][bf16]") {
  const memory m{.H = 2,
                 .G = 1,
                 .D = 64,
                 .query_lengths = {257},
                 .key_lengths = {257},
                 .fused = true,
                 .p_drop = 0.1f};
  const memory one = computed(m, 1), two = computed(m, 2);
  CHECK(same_bits(one, computed(m, 1)));
  CHECK(same_bits(two, computed(m, 2)));
  CHECK(one.o == two.o);
  CHECK(one.lse == two.lse);
}

TEST_CASE("the judge computes attention in bf16 on promoted numbers",
          "[kernels][reference][attention][bf16]") {
  memory m{.H = 2, .G = 1, .D = 5, .query_lengths = {9}, .key_lengths = {9}, .p_drop = 0.2f};
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
