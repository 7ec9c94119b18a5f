#include "tests/support/device_ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using kernels::normalization;
using tests::error_of;
using tests::head_norm_memory;
using tests::in_double;
using tests::on_device;
using tests::redrawn;

namespace {

struct shape {
  std::int64_t R, G, heads, D;
};

// One element; primes; the heads that models have; a head that a warp has no room for.
const auto shapes = {shape{1, 1, 1, 1},
                     {3, 2, 3, 7},
                     {5, 3, 2, 64},
                     {7, 2, 4, 128},
                     {3, 1, 3, 256},
                     {2, 2, 1, 520},
                     {41, 2, 3, 24}};

// Some hundred roundings of 6e-8, adding up as a random walk does.
constexpr double rounding = 2e-6;

}  // namespace

TEMPLATE_TEST_CASE("head norm on a device agrees with the judge and touches only its heads",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  const auto [R, G, heads, D] = GENERATE_REF(values(shapes));
  const auto kind = GENERATE(normalization::layer, normalization::rms);
  const std::size_t shift = GENERATE(0, 1);
  auto m = redrawn(
      head_norm_memory<TestType>{
          .R = R, .G = G, .heads = heads, .D = D, .kind = kind, .gain_offset = shift ? 1.0f : 0.0f},
      int(D));
  auto exact = in_double(m);
  on_device(m, m.forward(), shift);
  kernels::reference::run(exact.forward());
  // What lies between the heads still holds what was there: it is compared with the rest.
  CHECK(error_of(m.y, exact.y) < rounding);
  for (std::size_t i = 0; i < m.y.size(); ++i)
    CHECK((double(m.y[i]) == double(TestType(tests::unwritten)))
          == (exact.y[i] == double(TestType(tests::unwritten))));
  CHECK(tests::relative_error(m.mean, exact.mean) < rounding);
  CHECK(tests::relative_error(m.rstd, exact.rstd) < rounding);

  m.mean = exact.mean;
  m.rstd = exact.rstd;
  on_device(m, m.backward_input(), shift);
  kernels::reference::run(exact.backward_input());
  CHECK(error_of(m.dx, exact.dx) < (D > 2 ? rounding : 1));
  on_device(m, m.backward_weight(), shift);
  kernels::reference::run(exact.backward_weight());
  CHECK(error_of(m.dgain, exact.dgain) < rounding);
  CHECK(error_of(m.dbias, exact.dbias) < rounding);
}

TEMPLATE_TEST_CASE("head norm on a device may write over its input, with the same bits",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16) {
  const std::int64_t D = GENERATE(23, 64);
  head_norm_memory<TestType> a{.R = 7, .G = 2, .heads = 3, .D = D}, b = a;
  on_device(a, a.forward());
  on_device(a, a.backward_input());
  on_device(a, a.backward_weight());
  const tests::emulated_seed other(5);
  b.mean = a.mean;
  b.rstd = a.rstd;
  on_device(b, b.backward_weight());
  auto back = b.backward_input();
  back.dx = b.dy.data();
  on_device(b, back);
  auto forward = b.forward();
  forward.y = b.x.data();
  on_device(b, forward);
  for (std::int64_t i = 0; i < std::int64_t(a.y.size()); ++i) {
    if (i / D % 5 < 3) {
      CHECK(b.x[std::size_t(i)] == a.y[std::size_t(i)]);
      CHECK(b.dy[std::size_t(i)] == a.dx[std::size_t(i)]);
    }
  }
  CHECK(a.dgain == b.dgain);
}
