#include "tests/support/device_ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using kernels::normalization;
using tests::error_of;
using tests::in_double;
using tests::norm_memory;
using tests::on_device;
using tests::redrawn;

namespace {

struct shape {
  std::int64_t R, C;
};

// One element; primes; rows of 1 to 4 packs a lane of 8, 16 or 32, with some lanes idle.
const auto shapes = {shape{1, 1},
                     {3, 7},
                     {37, 64},
                     {131, 88},
                     {19, 136},
                     {5, 256},
                     {11, 264},
                     {3, 520},
                     {9, 768},
                     {2, 1000}};
// Rows of several packs for each lane of a block, and those that do not fit into its registers.
const auto long_shapes = {shape{2, 1544}, {3, 2048}, {2, 4104}, {1, 8192}, {2, 8200}, {1, 20480}};

// Some hundred roundings of 6e-8, adding up as a random walk does.
constexpr double rounding = 2e-6;

template <class T>
void check_norm(
    std::int64_t R, std::int64_t C, normalization kind, bool residual, std::size_t shift) {
  auto m = redrawn(norm_memory<T>{.R = R,
                                  .C = C,
                                  .kind = kind,
                                  .with_residual = residual,
                                  .gain_offset = residual ? 1.0f : 0.0f},
                   int(C));
  auto exact = in_double(m);
  on_device(m, m.forward(), shift);
  kernels::reference::run(exact.forward());
  CHECK(error_of(m.y, exact.y) < rounding);
  CHECK(tests::relative_error(m.mean, exact.mean) < rounding);
  CHECK(tests::relative_error(m.rstd, exact.rstd) < rounding);

  m.mean = exact.mean;
  m.rstd = exact.rstd;
  on_device(m, m.backward_input(), shift);
  kernels::reference::run(exact.backward_input());
  // Layer norm of two or less numbers has no gradient: what is left is cancellation. rstd is 316.
  CHECK(error_of(m.dx, exact.dx) < (C > 2 || residual ? rounding : 1));

  on_device(m, m.backward_weight(), shift);
  kernels::reference::run(exact.backward_weight());
  CHECK(error_of(m.dgain, exact.dgain) < rounding);
  CHECK(error_of(m.dbias, exact.dbias) < rounding);
}

}  // namespace

TEMPLATE_TEST_CASE("norm on a device agrees with the judge",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  const auto [R, C] = GENERATE_REF(values(shapes));
  const auto kind = GENERATE(normalization::layer, normalization::rms);
  const bool residual = GENERATE(false, true);
  const std::size_t shift = GENERATE(0, 1);
  check_norm<TestType>(R, C, kind, residual, shift);
}

TEMPLATE_TEST_CASE("norm on a device agrees with the judge on long rows",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  const auto [R, C] = GENERATE_REF(values(long_shapes));
  const auto kind = GENERATE(normalization::layer, normalization::rms);
  check_norm<TestType>(R, C, kind, R == 2, C == 2048 || C == 8200 ? 1 : 0);
}

TEMPLATE_TEST_CASE("norm on a device sums the weights of many rows in several blocks",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16) {
  const auto [R, C] = GENERATE(shape{64, 8}, shape{65, 40}, shape{700, 24}, shape{1031, 7});
  check_norm<TestType>(R, C, normalization::layer, false, 0);
}

TEST_CASE("norm on a device keeps a row whose mean is far from zero", "[kernels][cuda]") {
  // In registers, read twice by vectors, and read twice one by one.
  const std::int64_t C = GENERATE(768, 20480, 769);
  norm_memory<float> m{.R = 4, .C = C};
  for (auto& value : m.x)
    value += 1000;
  auto exact = in_double(m);
  kernels::reference::run(exact.forward());
  on_device(m, m.forward());
  // The mean is known to 1e-4 of a standard deviation: a float at 1000, and the sum of them.
  CHECK(error_of(m.y, exact.y) < 2e-4);
  CHECK(tests::relative_error(m.rstd, exact.rstd) < 1e-5);
}

TEMPLATE_TEST_CASE("norm on a device has the same bits in every run",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16) {
  const auto [R, C] = GENERATE(shape{131, 264}, shape{3, 2048}, shape{1, 20480}, shape{700, 23});
  norm_memory<TestType> a{.R = R, .C = C}, b = a;
  for (auto* m : {&a, &b}) {
    const tests::emulated_seed order(m == &a ? 3 : 4);
    on_device(*m, m->forward());
    on_device(*m, m->backward_input());
    on_device(*m, m->backward_weight());
  }
  CHECK(a.y == b.y);
  CHECK(a.mean == b.mean);
  CHECK(a.rstd == b.rstd);
  CHECK(a.dx == b.dx);
  CHECK(a.dgain == b.dgain);
  CHECK(a.dbias == b.dbias);
}

TEST_CASE("norm on a device takes a residual that alone is not aligned", "[kernels][cuda]") {
  norm_memory<float> m{.R = 5, .C = 24, .with_residual = true};
  m.residual = tests::normal<float>(std::size_t(m.R * m.C) + 1, 9);
  auto exact = in_double(m);
  kernels::reference::run(exact.forward());
  tests::copy_array(m.mean, exact.mean);
  tests::copy_array(m.rstd, exact.rstd);
  auto op = m.backward_input();
  auto judge = exact.backward_input();
  ++op.residual;
  ++judge.residual;
  on_device(m, op);
  kernels::reference::run(judge);
  CHECK(error_of(m.dx, exact.dx) < 1e-5);
}

TEST_CASE("norm on a device leaves out the statistics that nobody wants", "[kernels][cuda]") {
  const std::int64_t C = GENERATE(19, 24);
  norm_memory<float> a{.R = 3, .C = C}, b = a;
  on_device(a, a.forward());
  auto op = b.forward();
  op.mean = nullptr;
  op.rstd = nullptr;
  on_device(b, op);
  CHECK(b.y == a.y);
  CHECK(b.mean.front() == tests::unwritten);
}

TEST_CASE("norm on a device refuses a workspace that is too small", "[kernels][cuda]") {
  norm_memory<float> m{.R = 3, .C = 19};
  CHECK_THROWS_AS(kernels::cuda::run(m.backward_weight(), {}), std::logic_error);
}

TEST_CASE("the sums of no rows change no gradient on a device", "[kernels][cuda]") {
  norm_memory<float> m{.R = 0, .C = 19}, before = m;
  on_device(m, m.forward());
  on_device(m, m.backward_input());
  on_device(m, m.backward_weight());
  CHECK(m.dgain == before.dgain);
  CHECK(m.dbias == before.dbias);
}
