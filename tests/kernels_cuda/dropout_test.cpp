#include "tests/support/device_ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::dropout_memory;
using tests::error_of;
using tests::in_double;
using tests::on_device;
using tests::redrawn;

namespace {

struct shape {
  std::int64_t sequences, T_, C;
};

// One element; primes; rows of four words and rows of packs; a row that no word block begins at.
const auto shapes = {shape{1, 1, 1}, {2, 3, 7}, {3, 5, 12}, {2, 7, 64}, {5, 3, 136}, {1, 11, 1030}};

// A sum, and a product: each rounded once, to 6e-8.
constexpr double rounding = 2e-7;

}  // namespace

TEMPLATE_TEST_CASE("dropout on a device agrees with the judge: the same elements fall",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  const auto [sequences, T_, C] = GENERATE_REF(values(shapes));
  const float p = GENERATE(0.0f, 0.1f, 0.9f);
  const bool residual = GENERATE(false, true), bias = GENERATE(false, true);
  const std::size_t shift = GENERATE(0, 1);
  auto m = redrawn(dropout_memory<TestType>{.sequences = sequences,
                                            .T_ = T_,
                                            .C = C,
                                            .p = p,
                                            .with_residual = residual,
                                            .with_bias = bias},
                   int(C));
  auto exact = in_double(m);
  on_device(m, m.forward(), shift);
  kernels::reference::run(exact.forward());
  CHECK(error_of(m.y, exact.y) < rounding);
  on_device(m, m.backward(), shift);
  kernels::reference::run(exact.backward());
  CHECK(error_of(m.dx, exact.dx) < rounding);
  for (std::size_t i = 0; i < m.dx.size(); ++i)
    CHECK((double(m.dx[i]) == 0) == (exact.dx[i] == 0));
}

TEST_CASE("dropout on a device may have any rows of a micro-batch, and write over its input",
          "[kernels][cuda]") {
  const std::int64_t C = GENERATE(7, 64), first = GENERATE(1, 5, 13);
  dropout_memory<kernels::bf16> whole{.sequences = 4, .T_ = 5, .C = C, .with_bias = true},
      part = whole;
  on_device(whole, whole.forward());
  auto op = part.forward();
  const bool over_residual = GENERATE(false, true);
  auto& over = over_residual ? part.residual : part.x;
  op.first_row = first;
  op.R = 20 - first;
  op.x += first * C;
  op.residual += first * C;
  op.y = over.data() + first * C;
  on_device(part, op);
  CHECK(std::equal(over.begin() + first * C, over.end(), whole.y.begin() + first * C));
}

TEST_CASE("dropout on a device draws from every bit of key, sample and element",
          "[kernels][cuda]") {
  dropout_memory<float> m{.sequences = 3, .T_ = 3, .C = 16, .p = 0.5f};
  m.key = 0xfedcba9876543210u;
  m.sample = {0, std::uint64_t{1} << 40, ~std::uint64_t{0}};
  auto exact = in_double(m);
  exact.key = m.key;
  on_device(m, m.forward());
  kernels::reference::run(exact.forward());
  CHECK(error_of(m.y, exact.y) < rounding);
}
