// Cases beyond the operation tester (op_tester_test.cpp): fingerprints of the results, and equal
// bits with and without fingerprints.

#include "tests/support/device_ops.hpp"
#include "tests/support/written_fingerprints.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::device_array;
using tests::normal;

TEST_CASE("an update with one moment on a device fingerprints its results", "[kernels][cuda]") {
  const auto rule = GENERATE(kernels::momentum_rule::sgd, kernels::momentum_rule::lion);
  const std::int64_t grain = GENERATE(1, 61, 2051, 4098, 65536);
  const std::int64_t n = GENERATE_COPY(0, 1, 7, grain == 1 ? 301 : 5003);  // a grain is a block
  const std::size_t shift = GENERATE(0, 1);
  CAPTURE(int(rule), n, grain, shift);
  const auto x = normal<float>(std::size_t(n), 1), m = normal<float>(std::size_t(n), 2);
  const device_array<float> dx(normal<float>(std::size_t(n), 3), shift);
  const auto keys = tests::keys_for(2, n, grain);
  const device_array<std::uint64_t> keys_there(keys);
  std::vector<std::vector<float>> left[2];
  device_array<std::uint64_t> results(std::vector<std::uint64_t>(4, 1));
  for (const bool prints : {false, true}) {
    device_array<float> x_there(x, shift), m_there(m, shift);
    auto op = tests::momentum_like(rule);
    op.x = x_there.data();
    op.m = m_there.data();
    op.dx = dx.data();
    op.n = n;
    if (prints)
      op.fingerprints = {results.data(), keys_there.data(), grain};
    tests::run_on_device(op);
    left[prints ? 1 : 0] = {x_there.download(), m_there.download()};
  }
  CHECK(left[0] == left[1]);
  CHECK(results.download() == tests::fingerprints_of(left[1], keys, grain));
}

TEST_CASE("a scaled sum on a device fingerprints its result", "[kernels][cuda]") {
  const std::int64_t grain = GENERATE(1, 61, 4098, 65536);
  const std::int64_t n = GENERATE_COPY(0, 1, 7, grain == 1 ? 301 : 5003);
  const bool two = GENERATE(false, true);
  CAPTURE(n, grain, two);
  const device_array<float> x(normal<float>(std::size_t(n), 1)),
      z(normal<float>(std::size_t(n), 2));
  const auto keys = tests::keys_for(1, n, grain);
  const device_array<std::uint64_t> keys_there(keys);
  std::vector<std::vector<float>> left[2];
  device_array<std::uint64_t> results(std::vector<std::uint64_t>(2, 1));
  for (const bool prints : {false, true}) {
    device_array<float> y(std::vector<float>(std::size_t(n), 9.0F));
    kernels::scaled_sum<float> op{.y = y.data(),
                                  .x = x.data(),
                                  .z = two ? z.data() : nullptr,
                                  .n = n,
                                  .a = 0.75F,
                                  .b = -0.5F};
    if (prints)
      op.fingerprints = {results.data(), keys_there.data(), grain};
    tests::run_on_device(op);
    left[prints ? 1 : 0] = {y.download()};
  }
  CHECK(left[0] == left[1]);
  CHECK(results.download() == tests::fingerprints_of(left[1], keys, grain));
}
