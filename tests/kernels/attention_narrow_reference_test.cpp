// The reference in bf16 and f16 has the bits of the double reference, rounded once.

#include "kernels/reference/reference.hpp"
#include "tests/support/narrow.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>

using namespace troupe;
using kernels::bf16;
using kernels::f16;
using tests::beyond_rounding;
using tests::exactly;
template <class T>
using memory = tests::attention_memory<T>;

namespace {

template <class T>
tests::attention_memory<double> in_double(const memory<T>& m) {
  tests::attention_memory<double> out{.H = m.H,
                                      .G = m.G,
                                      .D = m.D,
                                      .Dv = m.Dv,
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

}  // namespace

TEMPLATE_TEST_CASE("the reference computes attention in a narrow type on exactly converted numbers",
                   "[kernels][reference][attention][narrow]",
                   bf16,
                   f16) {
  memory<TestType> m{
      .H = 2, .G = 1, .D = 5, .Dv = 3, .query_lengths = {9}, .key_lengths = {9}, .p_drop = 0.2f};
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
