#include "kernels/op/expert_bias.hpp"
#include "kernels/reference/reference.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <vector>

using namespace troupe;

namespace {

std::vector<float> moved(std::vector<float> bias, const std::vector<float>& counts) {
  const kernels::expert_bias_step<float> op{
      bias.data(), counts.data(), std::int64_t(counts.size()), 0.5F};
  kernels::reference::run(op);
  return bias;
}

}  // namespace

TEST_CASE("the bias of an expert moves against its share of the rows", "[kernels][reference]") {
  CHECK(moved({0, 1, 2}, {5, 4, 3}) == std::vector<float>{-0.5F, 1, 2.5F});
  // The mean is 13 / 3: no expert has it.
  CHECK(moved({0, 1, 2}, {5, 4, 4}) == std::vector<float>{-0.5F, 1.5F, 2.5F});
  CHECK(moved({0, 1, 2}, {0, 0, 0}) == std::vector<float>{0, 1, 2});
  // Neighbours of a mean that f32 cannot tell from them.
  constexpr float most = 16777215.0F;
  CHECK(moved({0, 0, 0}, {most, most, most - 1}) == std::vector<float>{-0.5F, -0.5F, 0.5F});
}

TEST_CASE("a bias stays where a count is not a number", "[kernels][reference]") {
  CHECK(moved({1, 2}, {NAN, 4}) == std::vector<float>{1, 2});
}

TEST_CASE("a step of the bias counts its work", "[kernels][reference]") {
  const kernels::expert_bias_step<float> op{nullptr, nullptr, 8, 0.5F};
  CHECK(flops(op) == 32);
  CHECK(bytes_moved(op) == 96);
}
