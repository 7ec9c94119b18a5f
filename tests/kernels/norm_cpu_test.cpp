#include "kernels/reference/reference.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using kernels::normalization;
using tests::on_cpu;
using tests::relative_error;

namespace {

struct shape {
  std::int64_t R, C;
};

// One element; primes; below, at and beyond four vectors; enough rows for several blocks and two
// threads.
const auto shapes = {shape{1, 1}, {3, 7}, {5, 61}, {37, 64}, {2, 65}, {131, 257}, {2100, 33}};

// Some hundred roundings of 6e-8, adding up as a random walk does.
constexpr double rounding = 2e-6;

}  // namespace

TEST_CASE("norm on the cpu agrees with the reference", "[kernels][cpu]") {
  const auto [R, C] = GENERATE_REF(values(shapes));
  const auto kind = GENERATE(normalization::layer, normalization::rms);
  const bool residual = GENERATE(false, true);
  tests::norm_memory<float> a{.R = R, .C = C, .kind = kind, .with_residual = residual}, b = a;

  kernels::reference::run(a.forward());
  on_cpu(b.forward(), 2);
  CHECK(relative_error(b.y, a.y) < rounding);
  CHECK(relative_error(b.mean, a.mean) < rounding);
  CHECK(relative_error(b.rstd, a.rstd) < rounding);

  b.mean = a.mean;
  b.rstd = a.rstd;
  kernels::reference::run(a.backward_input());
  on_cpu(b.backward_input(), 2);
  // Layer norm of two or less numbers has no gradient: what is left is cancellation. rstd is 316.
  CHECK(relative_error(b.dx, a.dx) < (C > 2 || residual ? rounding : 1));

  kernels::reference::run(a.backward_weight());
  on_cpu(b.backward_weight(), 2);
  CHECK(relative_error(b.dgain, a.dgain) < rounding);
  CHECK(relative_error(b.dbias, a.dbias) < rounding);
}

TEST_CASE("norm on the cpu keeps a row whose mean is far from zero", "[kernels][cpu]") {
  tests::norm_memory<float> a{.R = 4, .C = 769};
  for (auto& value : a.x)
    value += 1000;
  auto b = a;
  kernels::reference::run(a.forward());
  on_cpu(b.forward());
  // The mean is known to 1e-4 of a standard deviation: a float at 1000, and the sum of 769 of them.
  CHECK(relative_error(b.y, a.y) < 2e-4);
  CHECK(relative_error(b.rstd, a.rstd) < 1e-5);
}

TEST_CASE("norm on the cpu has the same bits whatever the number of threads", "[kernels][cpu]") {
  const auto [R, C] = GENERATE_REF(values(shapes));
  tests::norm_memory<float> one{.R = R, .C = C}, three = one;
  on_cpu(one.forward(), 1);
  on_cpu(three.forward(), 3);
  CHECK(one.y == three.y);
  on_cpu(one.backward_input(), 1);
  on_cpu(three.backward_input(), 3);
  CHECK(one.dx == three.dx);
  on_cpu(one.backward_weight(), 1);
  on_cpu(three.backward_weight(), 3);
  CHECK(one.dgain == three.dgain);
  CHECK(one.dbias == three.dbias);
}

TEST_CASE("norm on the cpu leaves out the statistics that nobody wants", "[kernels][cpu]") {
  tests::norm_memory<float> a{.R = 3, .C = 19}, b = a;
  on_cpu(a.forward());
  auto op = b.forward();
  op.mean = nullptr;
  op.rstd = nullptr;
  on_cpu(op);
  CHECK(b.y == a.y);
}

TEST_CASE("norm on the cpu refuses a workspace that is too small", "[kernels][cpu]") {
  tests::norm_memory<float> a{.R = 3, .C = 19};
  CHECK_THROWS_AS(kernels::run(kernels::backend::cpu, a.backward_weight(), {}), std::logic_error);
}

TEST_CASE("norm on the cpu adds an offset to the gain", "[kernels][cpu]") {
  const auto kind = GENERATE(normalization::layer, normalization::rms);
  tests::norm_memory<float> offset{.R = 5, .C = 61, .kind = kind, .gain_offset = 1}, plain = offset;
  plain.gain_offset = 0;
  for (auto& gain : plain.gain)
    gain += 1;
  for (auto* t : {&offset, &plain}) {
    on_cpu(t->forward());
    on_cpu(t->backward_input());
  }
  CHECK(offset.y == plain.y);  // one addition, wherever it is made
  CHECK(offset.dx == plain.dx);
}
