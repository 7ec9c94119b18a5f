// A cache of keys and values on a device grows as the judge's does.

#include "kernels/reference/reference.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using kernels::bf16;
using kernels::f16;

TEMPLATE_TEST_CASE(
    "rows go to their places in a cache, and nowhere else", "[cache]", float, bf16, f16) {
  struct shape {
    std::int64_t R, G, width, row, group;
  };
  // The last: heads of a fused product, a row too many elements for one round of a block.
  const auto [R, G, width, row, group] = GENERATE(values<shape>(
      {{1, 1, 2, 2, 2}, {5, 3, 14, 60, 20}, {7, 4, 128, 1024, 256}, {0, 1, 8, 8, 8}}));
  const std::size_t shift = GENERATE(0, 1);
  INFO("R " << R << " width " << width << " shift " << shift);
  const std::int64_t cached = 2 * R + 1;
  const auto kv = tests::normal<TestType>(std::size_t(R * row), 3);
  std::vector<std::int32_t> position, at, positions(std::size_t(cached), -7);
  for (std::int32_t r = 0; r < R; ++r) {
    position.push_back(100 + 3 * r);
    at.push_back(std::int32_t(2 * (R - r) - 1));
  }
  std::vector<TestType> entries(std::size_t(cached * G * width), TestType(-777.0F));

  const tests::device_array<TestType> kv_there(kv, shift);
  const tests::device_array<std::int32_t> position_there(position), at_there(at);
  tests::device_array<TestType> entries_there(entries, shift);
  tests::device_array<std::int32_t> positions_there(positions);
  kernels::cache_rows<TestType> op{.entries = entries_there.data(),
                                   .positions = positions_there.data(),
                                   .kv = kv_there.data(),
                                   .position = position_there.data(),
                                   .at = at_there.data(),
                                   .R = R,
                                   .G = G,
                                   .width = width,
                                   .row = row,
                                   .group = group};
  tests::run_on_device(op);

  op.entries = entries.data();
  op.positions = positions.data();
  op.kv = kv.data();
  op.position = position.data();
  op.at = at.data();
  kernels::reference::run(op);
  const bool same = entries_there.download() == entries;
  CHECK(same);
  CHECK(positions_there.download() == positions);
}
