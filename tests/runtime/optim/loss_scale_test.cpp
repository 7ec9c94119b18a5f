#include "runtime/optim/loss_scale.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <vector>

using namespace troupe::runtime;

namespace {

/// log2 of the scale after each step.
std::vector<double> trace(const loss_scaling& scaling, const std::vector<bool>& finite) {
  std::vector<double> out;
  auto at = first_scale(scaling);
  for (const bool x : finite) {
    at = next_scale(scaling, at, x);
    out.push_back(std::log2(at.value));
  }
  return out;
}

}  // namespace

TEST_CASE("a dynamic loss scale follows Megatron-LM's trace", "[loss_scale]") {
  CHECK(std::log2(first_scale({}).value) == 32);
  CHECK(trace({.window = 3}, {false, false, true, false, true, true, true})
        == std::vector<double>{32, 31, 31, 30, 30, 30, 31});
}

TEST_CASE("only growth of the scale restores the hysteresis", "[loss_scale]") {
  // Two skipped steps precede the first fall. Then each one lowers the scale, until it grows again.
  CHECK(trace({.initial = 1024, .window = 2, .hysteresis = 3},
              {false, true, false, false, false, true, true, false, false, false})
        == std::vector<double>{10, 10, 10, 9, 8, 8, 9, 9, 9, 8});
}

TEST_CASE("a window counts consecutive steps since the last change", "[loss_scale]") {
  CHECK(trace({.initial = 16, .window = 3, .hysteresis = 1},
              {true, true, false, true, true, false, true, true, true, true, true, true})
        == std::vector<double>{4, 4, 3, 3, 3, 2, 2, 2, 3, 3, 3, 4});
}

TEST_CASE("a loss scale falls to its minimum and counts further bad steps", "[loss_scale]") {
  const loss_scaling scaling{.initial = 8, .minimum = 3, .window = 2, .hysteresis = 1};
  auto at = first_scale(scaling);
  CHECK(can_fall(scaling, at));
  at = next_scale(scaling, at, false);
  CHECK(at.value == 4);
  CHECK(can_fall(scaling, at));
  at = next_scale(scaling, at, false);
  CHECK(at.value == 3);
  CHECK_FALSE(can_fall(scaling, at));
  CHECK(at.at_minimum == 0);  // the scale of the bad step was 4
  for (std::uint64_t i = 1; i < 4; ++i) {
    at = next_scale(scaling, at, false);
    CHECK(at.value == 3);
    CHECK(at.at_minimum == i);
  }
  at = next_scale(scaling, at, true);
  CHECK(at.at_minimum == 0);
  CHECK(next_scale(scaling, at, true).value == 6);
}

TEST_CASE("a constant loss scale stays, and replaces that of a checkpoint", "[loss_scale]") {
  const loss_scaling scaling{.constant = 1000};
  const auto at = first_scale(scaling);
  CHECK(at.value == 1000);
  CHECK(next_scale(scaling, at, false) == at);
  CHECK(next_scale(scaling, at, true) == at);
  CHECK_FALSE(can_fall(scaling, at));
  const loss_scale there{.value = 64, .finite = 7, .hysteresis = -3};
  CHECK(resumed_scale(scaling, there) == at);
  CHECK(resumed_scale({}, there) == there);
}
