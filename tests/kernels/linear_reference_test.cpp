#include "kernels/reference/reference.hpp"
#include "tests/support/gradient.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

using namespace troupe;
using namespace troupe::tests;
using kernels::reference::run;

namespace {

// The gradients are exact to rounding; what is left is the truncation of the finite differences.
constexpr double tolerance = 1e-8;

}  // namespace

TEST_CASE("a linear layer multiplies rows of x with rows of the weight and adds the bias",
          "[kernels][reference][linear]") {
  linear_memory<double> t{.R = 1, .N = 2, .K = 3};
  t.x = {1, 2, 3};
  t.weight = {1, 0, -1, 4, 5, 6};
  t.bias = {10, 20};
  run(t.forward());
  CHECK(t.y == std::vector<double>{8, 52});
  CHECK(t.z == t.y);

  t.with_bias = false;
  t.with_z = false;
  run(t.forward());
  CHECK(t.y == std::vector<double>{-2, 32});
  CHECK(t.z == std::vector<double>{8, 52});  // not wanted, not touched
}

TEST_CASE("the epilogue of a linear layer is the activation of z", "[kernels][reference][linear]") {
  const auto epilogue = GENERATE(kernels::epilogue::gelu_tanh, kernels::epilogue::gelu_erf);
  linear_memory<double> t{.R = 5, .N = 7, .K = 3, .activation = epilogue};
  run(t.forward());
  activation_memory<double> a{.R = 5, .N = 7, .kind = kernels::activation_of(epilogue), .x = t.z};
  run(a.forward());
  CHECK(t.y == a.y);
}

TEST_CASE("I and W of a linear layer agree with finite differences",
          "[kernels][reference][linear][gradient]") {
  const auto with_bias = GENERATE(true, false);
  linear_memory<double> t{.R = 5, .N = 7, .K = 3, .with_bias = with_bias};
  const auto dweight = t.dweight, dbias = t.dbias;
  run(t.backward_input());
  run(t.backward_weight());

  const auto loss = [&t] {
    run(t.forward());
    return weighted_sum(t.y, t.dz);
  };
  CHECK(relative_error(t.dx, slopes(t.x, loss)) < tolerance);
  CHECK(relative_error(t.dweight, plus(dweight, slopes(t.weight, loss))) < tolerance);
  CHECK(relative_error(t.dbias, plus(dbias, slopes(t.bias, loss))) < tolerance);
}

TEST_CASE("I of a linear layer goes back through the activation that made its input",
          "[kernels][reference][linear][gradient]") {
  const auto made_x = GENERATE(from_range(kernels::every_epilogue));
  if (made_x == kernels::epilogue::none)
    return;
  linear_memory<double> t{.R = 3, .N = 5, .K = 4, .made_x = made_x};
  run(t.backward_input());
  activation_memory<double> a{
      .R = 3, .N = 4, .kind = kernels::activation_of(made_x), .x = t.z_of_x};
  const auto loss = [&] {
    run(a.forward());
    t.x = a.y;
    run(t.forward());
    return weighted_sum(t.y, t.dz);
  };
  CHECK(relative_error(t.dx, slopes(a.x, loss)) < tolerance);
}

TEST_CASE("a linear layer with an epilogue differentiates through the saved z",
          "[kernels][reference][linear][gradient]") {
  const auto epilogue = GENERATE(kernels::epilogue::gelu_tanh, kernels::epilogue::gelu_erf);
  linear_memory<double> t{.R = 3, .N = 5, .K = 4, .activation = epilogue};
  run(t.forward());
  activation_memory<double> a{.R = 3, .N = 5, .kind = kernels::activation_of(epilogue), .x = t.z};
  run(a.backward());
  t.dz = a.dx;
  run(t.backward_input());

  const auto loss = [&] {
    run(t.forward());
    return weighted_sum(t.y, a.dy);
  };
  CHECK(relative_error(t.dx, slopes(t.x, loss)) < tolerance);
}
