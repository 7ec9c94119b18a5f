#include "runtime/optim/expert_bias.hpp"

#include <catch2/catch_test_macros.hpp>

#include <vector>

TEST_CASE("the bias of an expert moves against its share of the rows", "[optim]") {
  std::vector<float> bias{0, 1, 2};
  const std::vector<std::uint64_t> counts{5, 4, 3};
  troupe::runtime::update_expert_bias(bias, counts, 0.5F);
  CHECK(bias == std::vector<float>{-0.5F, 1, 2.5F});
  // The mean is 13 / 3: no expert has it.
  const std::vector<std::uint64_t> uneven{5, 4, 4};
  troupe::runtime::update_expert_bias(bias, uneven, 0.5F);
  CHECK(bias == std::vector<float>{-1, 1.5F, 3});
}
