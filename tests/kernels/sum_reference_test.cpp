#include "kernels/reference/reference.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::tests;
using kernels::reference::run;

TEST_CASE("add also works in place", "[kernels][reference][sum]") {
  sum_memory<float> t{.n = 3};
  t.x[0] = {1, 2, 3};
  t.x[1] = {10, 20, 30};
  run(t.add());
  CHECK(t.y == std::vector<float>{11, 22, 33});
  auto op = t.add();
  op.y = t.x[1].data();
  run(op);
  CHECK(t.x[1] == t.y);
}

TEST_CASE("an ordered sum adds in the order of its sources, rounding after each, then scales",
          "[kernels][reference][sum]") {
  sum_memory<float> t{.n = 2, .scale = 0.5f};
  t.x = {{1e8f, 1e8f}, {1, -1e8f}, {-1e8f, 1}};  // 1e8f + 1 is 1e8f
  run(t.ordered_sum());
  CHECK(t.y == std::vector<float>{0, 0.5f});

  auto op = t.ordered_sum();
  op.y = t.x[2].data();
  run(op);
  CHECK(t.x[2] == t.y);

  t.sources = 1;
  run(t.ordered_sum());
  CHECK(t.y == std::vector<float>{5e7f, 5e7f});
}

// Next to 1 in double, 2^-54 is lost and 2^-52 is not, so the bits reveal the order.
TEST_CASE("square_norm sums each of 16 lanes separately, then adds the lanes in order",
          "[kernels][reference][sum]") {
  sum_memory<float> t{.n = 64};
  t.x[0].assign(64, 0);
  t.x[0][0] = 1;
  for (const std::size_t i : {1, 17, 33, 49})  // one lane
    t.x[0][i] = 0x1p-27f;
  run(t.square_norm());
  CHECK(t.result == 1 + 0x1p-52);

  t.x[0].assign(64, 0);
  t.x[0][0] = 1;
  for (const std::size_t i : {1, 2, 3, 4})  // four lanes
    t.x[0][i] = 0x1p-27f;
  run(t.square_norm());
  CHECK(t.result == 1);
}

TEST_CASE("square_norm sums blocks of 4096 separately, then adds the blocks in order",
          "[kernels][reference][sum]") {
  sum_memory<float> t{.n = 2 * 4096 + 1};
  t.x[0].assign(std::size_t(t.n), 0);
  t.x[0][0] = 1;
  for (const std::size_t i : {4096, 4097, 4098, 4099})  // four lanes of the second block
    t.x[0][i] = 0x1p-27f;
  run(t.square_norm());
  CHECK(t.result == 1 + 0x1p-52);
  t.x[0].back() = 2;
  run(t.square_norm());
  CHECK(t.result == 5);  // 5 + 2^-52 rounds to 5
}

TEST_CASE("the square norm of an empty array is zero", "[kernels][reference][sum]") {
  sum_memory<double> t{.n = 0};
  run(t.square_norm());
  CHECK(t.result == 0);
}
