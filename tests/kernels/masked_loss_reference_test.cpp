#include "kernels/reference/reference.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::tests;
using kernels::reference::run;

TEST_CASE("a masked loss sums the unmasked rows and spreads its gradient over them",
          "[kernels][reference][masked_loss]") {
  masked_loss_memory<double> t{.R = 4};
  t.loss = {1, 2, 4, 8};
  t.mask = {1, 0, 1, 1};
  run(t.forward());
  run(t.backward());
  CHECK(t.total == 13);
  CHECK(t.tokens == 3);
  CHECK(t.dloss == std::vector<float>{0.25f, 0, 0.25f, 0.25f});
  auto of_step = t.backward();
  of_step.tokens = nullptr;
  run(of_step);
  CHECK(t.dloss == std::vector<float>{0.75f, 0, 0.75f, 0.75f});
}
