#include "tests/support/device_ops.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::device_array;
using tests::normal;
using tests::sum_memory;

namespace {

// Nothing; one; primes; a block of square_norm and one more; several.
std::int64_t any_size() {
  return GENERATE(0, 1, 7, 61, 4096, 4097, 20011);
}

template <class T>
std::vector<T> ordered_sum_on_device(const sum_memory<T>& m, std::size_t shift, int over = -1) {
  std::vector<device_array<T>> sources;
  for (const auto& x : m.x)
    sources.emplace_back(x, shift);
  std::vector<const T*> pointers;
  for (const auto& x : sources)
    pointers.push_back(x.data());
  device_array<T> y(std::size_t(m.n), shift);
  auto& to = over < 0 ? y : sources[std::size_t(over)];
  tests::run_on_device(kernels::ordered_sum<T>{
      .y = to.data(), .x = pointers.data(), .sources = m.sources, .n = m.n, .scale = m.scale});
  return to.download();
}

}  // namespace

TEMPLATE_TEST_CASE("sums on a device have the bits of the judge",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  const auto n = any_size();
  const std::size_t shift = GENERATE(0, 1);
  sum_memory<TestType> m{.n = n};
  kernels::reference::run(m.add());
  const device_array<TestType> a(m.x[0], shift), b(m.x[1], shift);
  device_array<TestType> y(std::size_t(n), shift);
  tests::run_on_device(kernels::add<TestType>{.y = y.data(), .a = a.data(), .b = b.data(), .n = n});
  CHECK(y.download() == m.y);
}

TEMPLATE_TEST_CASE("ordered sums on a device have the bits of the judge",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16,
                   kernels::f16) {
  const auto n = any_size();
  const int sources = GENERATE(0, 1, 2, 5, 8);
  const std::size_t shift = GENERATE(0, 1);
  sum_memory<TestType> m{.n = n, .sources = sources};
  kernels::reference::run(m.ordered_sum());
  CHECK(ordered_sum_on_device(m, shift) == m.y);
}

TEMPLATE_TEST_CASE("an ordered sum on a device takes more sources than a kernel's parameters hold",
                   "[kernels][cuda]",
                   float,
                   kernels::bf16) {
  sum_memory<TestType> m{.n = 37, .sources = 1000};
  kernels::reference::run(m.ordered_sum());
  CHECK(ordered_sum_on_device(m, 0) == m.y);
}

TEST_CASE("sums on a device may write over a source", "[kernels][cuda]") {
  sum_memory<float> m{.n = 133};
  kernels::reference::run(m.ordered_sum());
  CHECK(ordered_sum_on_device(m, 0, 1) == m.y);
  kernels::reference::run(m.add());
  device_array<float> a(m.x[0]);
  const device_array<float> b(m.x[1]);
  tests::run_on_device(kernels::add<float>{.y = a.data(), .a = a.data(), .b = b.data(), .n = m.n});
  CHECK(a.download() == m.y);
}

TEST_CASE("the square norm on a device has the bits of the judge", "[kernels][cuda]") {
  // Some of them more blocks than one chunk of the second sum.
  const std::int64_t n = GENERATE(0, 1, 15, 61, 4095, 4096, 4097, 70001);
  const std::size_t shift = GENERATE(0, 1);
  const auto x = normal<float>(std::size_t(n), std::uint32_t(n));
  double expected = -1;
  kernels::reference::run(kernels::square_norm<float>{.result = &expected, .x = x.data(), .n = n});
  const device_array<float> from(x, shift);
  device_array<double> result(1);
  tests::run_on_device(
      kernels::square_norm<float>{.result = result.data(), .x = from.data(), .n = n});
  CHECK(result.download().front() == expected);
}

TEST_CASE("the blocks of a long array are added in their order on a device", "[kernels][cuda]") {
  const std::int64_t n = 4096 * 2100 + 5;  // three chunks of blocks
  auto x = normal<float>(1000, 5);
  x.resize(std::size_t(n));
  for (std::int64_t i = 1000; i < n; i += 61)
    x[std::size_t(i)] = float(i % 1009) * 1e-3f;
  double expected = -1;
  kernels::reference::run(kernels::square_norm<float>{.result = &expected, .x = x.data(), .n = n});
  const device_array<float> from(x);
  device_array<double> result(1);
  tests::run_on_device(
      kernels::square_norm<float>{.result = result.data(), .x = from.data(), .n = n});
  CHECK(result.download().front() == expected);
}

TEST_CASE("square norms on a device have the bits of the judge, for any number of arrays",
          "[kernels][cuda]") {
  const std::size_t count = GENERATE(0, 1, 5, 400);
  // One for all of an array; of several blocks; odd, and smaller than one; more blocks than a
  // thread adds alone.
  const std::int64_t grain = GENERATE(1 << 17, 8192, 61, 4096 * 65);
  std::vector<std::vector<float>> x;
  std::vector<device_array<float>> on_device;
  std::vector<kernels::square_norms<float>::piece> host, device;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t n = i == 3 ? 9000 : i == 4 ? 4096 * 70 : i * 37 % 301;  // the first has none
    x.push_back(normal<float>(n, std::uint32_t(i)));
    on_device.emplace_back(x.back(), i % 3);
  }
  for (std::size_t i = 0; i < count; ++i) {
    host.push_back({x[i].data(), std::int64_t(x[i].size())});
    device.push_back({on_device[i].data(), std::int64_t(x[i].size())});
  }
  kernels::square_norms<float> op{
      .results = nullptr, .pieces = host.data(), .count = std::int64_t(count), .grain = grain};
  std::vector<double> expected(std::size_t(grains_of(op)), -1);
  op.results = expected.data();
  kernels::reference::run(op);
  device_array<double> results(expected.size());
  op.results = results.data();
  op.pieces = device.data();
  tests::run_on_device(op);
  CHECK(results.download() == expected);
}
