// The reference in float sums in double as well: against the reference in double it may differ by
// the rounding of inputs and of saved values only, a few 6e-8, amplified where numbers cancel.

#include "kernels/reference/reference.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using namespace troupe::tests;
using kernels::reference::run;

namespace {

constexpr double tolerance = 2e-6;

}  // namespace

TEST_CASE("float and double agree on a linear layer", "[kernels][reference][linear]") {
  linear_memory<float> a{.R = 33, .N = 17, .K = 257, .activation = kernels::epilogue::gelu_tanh};
  linear_memory<double> b{.R = 33, .N = 17, .K = 257, .activation = kernels::epilogue::gelu_tanh};
  const auto both = [](auto& t) {
    run(t.forward());
    run(t.backward_input());
    run(t.backward_weight());
  };
  both(a);
  both(b);
  CHECK(relative_error(a.y, b.y) < tolerance);
  CHECK(relative_error(a.z, b.z) < tolerance);
  CHECK(relative_error(a.dx, b.dx) < tolerance);
  CHECK(relative_error(a.dweight, b.dweight) < tolerance);
  CHECK(relative_error(a.dbias, b.dbias) < tolerance);
}

TEST_CASE("float and double agree on attention", "[kernels][reference][attention]") {
  attention_memory<float> a{
      .H = 4, .G = 2, .D = 16, .query_lengths = {9, 5}, .key_lengths = {20, 5}, .p_drop = 0.2f};
  attention_memory<double> b{
      .H = 4, .G = 2, .D = 16, .query_lengths = {9, 5}, .key_lengths = {20, 5}, .p_drop = 0.2f};
  run(a.forward());
  run(b.forward());
  run(a.backward());
  run(b.backward());
  CHECK(relative_error(a.o, b.o) < tolerance);
  CHECK(relative_error(a.lse, b.lse) < tolerance);
  CHECK(relative_error(a.dq, b.dq) < tolerance);
  CHECK(relative_error(a.dk, b.dk) < tolerance);
  CHECK(relative_error(a.dv, b.dv) < tolerance);
}

TEST_CASE("float and double agree on a norm", "[kernels][reference][norm]") {
  const auto kind = GENERATE(kernels::normalization::layer, kernels::normalization::rms);
  norm_memory<float> a{.R = 33, .C = 65, .kind = kind, .with_residual = true};
  norm_memory<double> b{.R = 33, .C = 65, .kind = kind, .with_residual = true};
  const auto both = [](auto& t) {
    run(t.forward());
    run(t.backward_input());
    run(t.backward_weight());
  };
  both(a);
  both(b);
  CHECK(relative_error(a.y, b.y) < tolerance);
  CHECK(relative_error(a.dx, b.dx) < tolerance);
  CHECK(relative_error(a.dgain, b.dgain) < tolerance);
  CHECK(relative_error(a.dbias, b.dbias) < tolerance);
}

TEST_CASE("float and double agree on an activation", "[kernels][reference][activation]") {
  using kernels::activation;
  const auto kind = GENERATE(
      activation::gelu_tanh, activation::gelu_erf, activation::swiglu, activation::squared_relu);
  activation_memory<float> a{.R = 9, .N = 33, .kind = kind};
  activation_memory<double> b{.R = 9, .N = 33, .kind = kind};
  run(a.forward());
  run(b.forward());
  run(a.backward());
  run(b.backward());
  CHECK(relative_error(a.y, b.y) < tolerance);
  CHECK(relative_error(a.dx, b.dx) < tolerance);
}

TEST_CASE("float and double agree on rope and embedding", "[kernels][reference][rope][embedding]") {
  rope_memory<float> a{.R = 9, .G = 2, .heads = 3, .D = 16, .rotated = 16};
  rope_memory<double> b{.R = 9, .G = 2, .heads = 3, .D = 16, .rotated = 16};
  run(a.turn());
  run(b.turn());
  CHECK(relative_error(a.x, b.x) < tolerance);

  embedding_memory<float> c{.R = 30, .C = 9, .V = 7, .P = 5};
  embedding_memory<double> d{.R = 30, .C = 9, .V = 7, .P = 5};
  run(c.forward());
  run(d.forward());
  run(c.backward());
  run(d.backward());
  CHECK(relative_error(c.y, d.y) < tolerance);
  CHECK(relative_error(c.dtable, d.dtable) < tolerance);
  CHECK(relative_error(c.dposition_table, d.dposition_table) < tolerance);
}

TEST_CASE("float and double agree on cross-entropy and dropout",
          "[kernels][reference][cross_entropy][dropout]") {
  cross_entropy_memory<float> a{.R = 9, .V = 130, .vocabulary = 127};
  cross_entropy_memory<double> b{.R = 9, .V = 130, .vocabulary = 127};
  run(a.forward());
  run(b.forward());
  run(a.backward());
  run(b.backward());
  CHECK(relative_error(a.loss, b.loss) < tolerance);
  CHECK(relative_error(a.lse, b.lse) < tolerance);
  CHECK(relative_error(a.dlogits, b.dlogits) < tolerance);

  dropout_memory<float> c{.sequences = 2, .T_ = 5, .C = 9, .p = 0.4f};
  dropout_memory<double> d{.sequences = 2, .T_ = 5, .C = 9, .p = 0.4f};
  run(c.forward());
  run(d.forward());
  run(c.backward());
  run(d.backward());
  CHECK(relative_error(c.y, d.y) < tolerance);
  CHECK(relative_error(c.dx, d.dx) < tolerance);
}

TEST_CASE("float and double agree on AdamW and sums", "[kernels][reference][adamw][sum]") {
  adamw_memory<float> a{.n = 99};
  adamw_memory<double> b{.n = 99};
  run(a.step());
  run(b.step());
  CHECK(relative_error(a.x, b.x) < tolerance);
  CHECK(relative_error(a.m, b.m) < tolerance);
  CHECK(relative_error(a.v, b.v) < tolerance);

  sum_memory<float> c{.n = 5000};
  sum_memory<double> d{.n = 5000};
  run(c.add());
  run(d.add());
  CHECK(relative_error(c.y, d.y) < tolerance);
  run(c.ordered_sum());
  run(d.ordered_sum());
  CHECK(relative_error(c.y, d.y) < tolerance);
  run(c.square_norm());
  run(d.square_norm());
  CHECK(std::abs(c.result / d.result - 1) < tolerance);
}
