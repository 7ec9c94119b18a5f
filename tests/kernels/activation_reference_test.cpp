#include "kernels/reference/reference.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_adapters.hpp>

using namespace troupe;
using namespace troupe::tests;
using kernels::activation;
using kernels::reference::run;

TEST_CASE("activations have known values", "[kernels][reference][activation]") {
  activation_memory<double> t{.R = 1, .N = 3, .kind = activation::gelu_erf};
  t.x = {-1, 0, 1};
  run(t.forward());
  // x * Phi(x) with Phi(1) = 0.8413447460685429
  CHECK(relative_error(t.y, std::vector<double>{-0.15865525393145707, 0, 0.8413447460685429})
        < 1e-14);

  t.kind = activation::gelu_tanh;
  run(t.forward());
  // Computed with the formula of activation.hpp in Python floats.
  CHECK(relative_error(t.y, std::vector<double>{-0.15880800939172324, 0, 0.8411919906082768})
        < 1e-14);
}

TEST_CASE("a gated activation takes the gate from the first half of a row",
          "[kernels][reference][activation]") {
  activation_memory<double> t{.R = 2, .N = 1, .kind = activation::silu, .gated = true};
  t.x = {1, 10, 0, 10};
  run(t.forward());
  CHECK(relative_error(t.y, std::vector<double>{10 / (1 + std::exp(-1.0)), 0}) < 1e-15);
}

TEST_CASE("squared relu is zero below zero and a parabola above",
          "[kernels][reference][activation]") {
  activation_memory<double> t{.R = 1, .N = 4, .kind = activation::squared_relu};
  t.x = {-1000, -0.5, 0.5, 1000};
  t.dy = {1, 1, 1, 1};
  run(t.forward());
  run(t.backward());
  CHECK(t.y == std::vector<double>{0, 0, 0.25, 1e6});
  CHECK(t.dx == std::vector<double>{0, 0, 1, 2000});
}

TEST_CASE("relu, tanh, silu and quick GELU have known values and slopes",
          "[kernels][reference][activation]") {
  const auto [kind, y, dx] = GENERATE(table<activation, double, double>({
      // Computed with Python's math module.
      {activation::relu, 0.5, 1},
      {activation::tanh, 0.46211715726000974, 0.7864477329659275},
      {activation::silu, 0.3112296656009273, 0.7399611873026519},
      {activation::quick_gelu, 0.35038843660638014, 0.8792219119654143},
  }));
  activation_memory<double> t{.R = 1, .N = 1, .kind = kind};
  t.x = {0.5};
  t.dy = {1};
  run(t.forward());
  run(t.backward());
  CHECK(relative_error(t.y, std::vector<double>{y}) < 1e-14);
  CHECK(relative_error(t.dx, std::vector<double>{dx}) < 1e-14);
}

TEST_CASE("the slope of relu at zero is zero", "[kernels][reference][activation]") {
  activation_memory<double> t{.R = 1, .N = 3, .kind = activation::relu};
  t.x = {-1, 0, 1};
  t.dy = {1, 1, 1};
  run(t.forward());
  run(t.backward());
  CHECK(t.y == std::vector<double>{0, 0, 1});
  CHECK(t.dx == std::vector<double>{0, 0, 1});
}

TEST_CASE("far from zero an activation is the identity or zero, never NaN",
          "[kernels][reference][activation]") {
  const auto kind = GENERATE(activation::gelu_tanh,
                             activation::gelu_erf,
                             activation::silu,
                             activation::relu,
                             activation::quick_gelu);
  const bool gated = GENERATE(false, true);
  activation_memory<double> t{.R = 1, .N = 2, .kind = kind, .gated = gated};
  t.x = {-1000, 1000, 1, 1};
  t.x.resize(std::size_t(2 * kernels::fan_in(gated)));
  run(t.forward());
  CHECK(std::abs(t.y[0]) == 0);
  CHECK(t.y[1] == 1000);
}
