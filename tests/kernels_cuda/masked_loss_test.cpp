#include "tests/support/device_ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::device_array;
using tests::masked_loss_memory;

namespace {

struct result {
  double total, tokens;
  std::vector<float> dloss;

  friend bool operator==(const result&, const result&) = default;
};

result loss_on_device(const masked_loss_memory<float>& m, std::size_t shift) {
  const device_array<float> loss(m.loss, shift), mask(m.mask, shift);
  device_array<float> dloss(m.dloss, shift);
  device_array<double> total(1), tokens(1);
  tests::run_on_device(kernels::masked_loss_forward<float>{.total = total.data(),
                                                           .tokens = tokens.data(),
                                                           .loss = loss.data(),
                                                           .mask = mask.data(),
                                                           .R = m.R});
  tests::run_on_device(kernels::masked_loss_backward<float>{.dloss = dloss.data(),
                                                            .mask = mask.data(),
                                                            .tokens = tokens.data(),
                                                            .scale = m.scale,
                                                            .R = m.R});
  return {total.download().front(), tokens.download().front(), dloss.download()};
}

}  // namespace

TEST_CASE("the masked loss on a device has the bits of the judge where double is exact",
          "[kernels][cuda]") {
  const std::int64_t R = GENERATE(0, 1, 2, 61, 1024, 1025, 5003);
  const std::size_t shift = GENERATE(0, 1);
  masked_loss_memory<float> m{.R = R};
  for (auto& loss : m.loss)
    loss = std::abs(loss) + 1;
  kernels::reference::run(m.forward());
  kernels::reference::run(m.backward());
  const auto mine = loss_on_device(m, shift);
  CHECK(mine == result{m.total, m.tokens, m.dloss});
}

TEST_CASE("the masked loss on a device is the judge's but for roundings of double, in every run",
          "[kernels][cuda]") {
  masked_loss_memory<float> m{.R = 5003};
  for (std::size_t r = 0; r < m.loss.size(); r += 2)
    m.loss[r] *= 1e-12f;
  kernels::reference::run(m.forward());
  const auto mine = loss_on_device(m, 0);
  // Five thousand roundings of 1e-16, of sums as large as the total.
  CHECK(std::abs(mine.total - m.total) < 5e-13 * std::abs(m.total) + 5e-13);
  const tests::emulated_seed other(8);
  CHECK(loss_on_device(m, 0) == mine);
}

TEST_CASE("a micro-batch of which no row counts has no gradient on a device", "[kernels][cuda]") {
  masked_loss_memory<float> m{.R = 5};
  m.mask.assign(5, 0.0f);
  CHECK(loss_on_device(m, 0) == result{0, 0, std::vector<float>(5, 0.0f)});
}
