// What stands between the products, in bf16 and f16 against the judge on the same inputs. Both
// compute nearly the same number, in float and in double, and round it once: see
// tests/support/narrow.hpp.

#include "kernels/reference/reference.hpp"
#include "tests/support/narrow.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using kernels::activation;
using kernels::bf16;
using kernels::f16;
using kernels::normalization;
using tests::neighbours;
using tests::on_cpu;
using tests::relative_error;

namespace {

// Of the computation in float; the reasons stand in the tests of float.
constexpr double norm_noise = 2e-6, activation_noise = 5e-7, rope_noise = 5e-7;

activation any_kind() {
  return GENERATE(
      activation::gelu_tanh, activation::gelu_erf, activation::swiglu, activation::squared_relu);
}

}  // namespace

TEMPLATE_TEST_CASE("norm in a narrow type agrees with the reference",
                   "[kernels][cpu][narrow]",
                   bf16,
                   f16) {
  const auto [R, C] = GENERATE(table<std::int64_t, std::int64_t>(
      {{1, 1}, {3, 7}, {5, 61}, {37, 64}, {2, 65}, {131, 257}, {2100, 33}}));
  const auto kind = GENERATE(normalization::layer, normalization::rms);
  const bool residual = GENERATE(false, true);
  const float gain_offset = GENERATE(0.0f, 1.0f);
  tests::norm_memory<TestType> a{
      .R = R, .C = C, .kind = kind, .with_residual = residual, .gain_offset = gain_offset},
      b = a;
  kernels::reference::run(a.forward());
  on_cpu(b.forward(), 2);
  CHECK(neighbours(b.y, a.y, norm_noise));
  CHECK(relative_error(b.mean, a.mean) < norm_noise);
  CHECK(relative_error(b.rstd, a.rstd) < norm_noise);

  b.mean = a.mean;
  b.rstd = a.rstd;
  kernels::reference::run(a.backward_input());
  on_cpu(b.backward_input(), 2);
  // Layer norm of one number has no gradient: what is left is cancellation. rstd is 316.
  if (C > 2 || residual)
    CHECK(neighbours(b.dx, a.dx, C > 2 ? norm_noise : 1e-3));

  kernels::reference::run(a.backward_weight());
  on_cpu(b.backward_weight(), 2);
  CHECK(relative_error(b.dgain, a.dgain) < norm_noise);
  CHECK(relative_error(b.dbias, a.dbias) < norm_noise);
}

TEMPLATE_TEST_CASE("activations in a narrow type agree with the reference",
                   "[kernels][cpu][narrow]",
                   bf16,
                   f16) {
  const auto N = GENERATE(1, 7, 16, 61, 4099);
  const auto R = GENERATE(1, 3, 11);
  tests::activation_memory<TestType> a{.R = R, .N = N, .kind = any_kind()}, b = a;
  kernels::reference::run(a.forward());
  on_cpu(b.forward(), 2);
  CHECK(neighbours(b.y, a.y, activation_noise));
  kernels::reference::run(a.backward());
  on_cpu(b.backward(), 2);
  CHECK(neighbours(b.dx, a.dx, activation_noise));
}

TEMPLATE_TEST_CASE("the gradient of an activation may take the place of its input in a narrow type",
                   "[kernels][cpu][narrow]",
                   bf16,
                   f16) {
  tests::activation_memory<TestType> a{.R = 5, .N = 61, .kind = any_kind()}, b = a;
  on_cpu(a.backward());
  auto op = b.backward();
  op.dx = b.x.data();
  on_cpu(op);
  CHECK(b.x == a.dx);
}

TEMPLATE_TEST_CASE("rope in a narrow type agrees with the reference",
                   "[kernels][cpu][narrow]",
                   bf16,
                   f16) {
  const bool interleaved = GENERATE(false, true), backward = GENERATE(false, true);
  const auto [D, rotated] = GENERATE(
      table<std::int64_t, std::int64_t>({{2, 2}, {16, 16}, {30, 22}, {64, 32}, {600, 600}}));
  tests::rope_memory<TestType> a{
      .R = 37, .G = 2, .heads = 3, .D = D, .rotated = rotated, .interleaved = interleaved};
  auto b = a;
  kernels::reference::run(a.turn(backward));
  on_cpu(b.turn(backward), 2);
  CHECK(neighbours(b.x, a.x, rope_noise));  // the values too: they stay
}

TEMPLATE_TEST_CASE("embedding in a narrow type agrees with the reference",
                   "[kernels][cpu][narrow]",
                   bf16,
                   f16) {
  const auto R = GENERATE(1, 13, 1031);
  const auto C = GENERATE(1, 7, 64, 131);
  const bool positions = GENERATE(false, true);
  tests::embedding_memory<TestType> a{.R = R, .C = C, .V = 11, .P = 5, .with_positions = positions},
      b = a;
  kernels::reference::run(a.forward());
  on_cpu(b.forward(), 2);
  CHECK(b.y == a.y);  // one addition
  kernels::reference::run(a.backward());
  on_cpu(b.backward(), 2);
  CHECK(b.dtable == a.dtable);  // of the same floats in the same order
  CHECK(b.dposition_table == a.dposition_table);
}

TEMPLATE_TEST_CASE("dropout in a narrow type agrees with the reference",
                   "[kernels][cpu][narrow]",
                   bf16,
                   f16) {
  const auto [sequences, T, C] = GENERATE(table<std::int64_t, std::int64_t, std::int64_t>(
      {{1, 1, 1}, {3, 5, 7}, {2, 64, 16}, {5, 37, 131}, {2, 67, 521}}));
  const float p = GENERATE(0.0f, 0.1f, 0.5f);
  const bool residual = GENERATE(false, true), bias = GENERATE(false, true);
  tests::dropout_memory<TestType> a{.sequences = sequences,
                                    .T_ = T,
                                    .C = C,
                                    .p = p,
                                    .with_residual = residual,
                                    .with_bias = bias};
  auto b = a;
  kernels::reference::run(a.forward());
  on_cpu(b.forward(), 2);
  CHECK(neighbours(b.y, a.y, 2e-7));  // two sums and a product
  kernels::reference::run(a.backward());
  on_cpu(b.backward(), 2);
  CHECK(neighbours(b.dx, a.dx, 2e-7));
}

TEMPLATE_TEST_CASE("operations in a narrow type have the same bits whatever the number of threads",
                   "[kernels][cpu][narrow]",
                   bf16,
                   f16) {
  const auto both = [](auto& one, auto& three, auto op) {
    on_cpu(op(one), 1);
    on_cpu(op(three), 3);
  };
  tests::norm_memory<TestType> n1{.R = 2100, .C = 33}, n3 = n1;
  both(n1, n3, [](auto& m) { return m.forward(); });
  CHECK(n1.y == n3.y);
  both(n1, n3, [](auto& m) { return m.backward_input(); });
  CHECK(n1.dx == n3.dx);
  both(n1, n3, [](auto& m) { return m.backward_weight(); });
  CHECK(n1.dgain == n3.dgain);
  CHECK(n1.dbias == n3.dbias);

  tests::activation_memory<TestType> a1{.R = 61, .N = 1031, .kind = activation::swiglu}, a3 = a1;
  both(a1, a3, [](auto& m) { return m.forward(); });
  CHECK(a1.y == a3.y);
  both(a1, a3, [](auto& m) { return m.backward(); });
  CHECK(a1.dx == a3.dx);

  tests::dropout_memory<TestType> d1{.sequences = 3, .T_ = 67, .C = 521, .with_bias = true},
      d3 = d1;
  both(d1, d3, [](auto& m) { return m.forward(); });
  CHECK(d1.y == d3.y);

  tests::rope_memory<TestType> r1{.R = 331, .G = 2, .heads = 3, .D = 30, .rotated = 22}, r3 = r1;
  both(r1, r3, [](auto& m) { return m.turn(); });
  CHECK(r1.x == r3.x);

  tests::embedding_memory<TestType> e1{.R = 2053, .C = 133, .V = 17, .P = 64}, e3 = e1;
  both(e1, e3, [](auto& m) { return m.backward(); });
  CHECK(e1.dtable == e3.dtable);
  CHECK(e1.dposition_table == e3.dposition_table);
}
