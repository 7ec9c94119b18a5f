#include "kernels/reference/reference.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using namespace troupe::tests;
using kernels::reference::run;

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
  CHECK(t.z == std::vector<double>{8, 52});  // null z: the array is untouched
}

TEST_CASE("the epilogue of a linear layer is the activation of z", "[kernels][reference][linear]") {
  const auto epilogue = GENERATE(kernels::epilogue::gelu_tanh, kernels::epilogue::gelu_erf);
  linear_memory<double> t{.R = 5, .N = 7, .K = 3, .activation = epilogue};
  run(t.forward());
  activation_memory<double> a{.R = 5, .N = 7, .kind = kernels::activation_of(epilogue), .x = t.z};
  run(a.forward());
  CHECK(t.y == a.y);
}
