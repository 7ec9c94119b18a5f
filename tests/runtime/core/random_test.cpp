#include "runtime/core/random.hpp"

#include <catch2/catch_test_macros.hpp>

#include <bit>
#include <cmath>
#include <vector>

using namespace troupe::runtime;

TEST_CASE("normal quantiles equal the published ones", "[core]") {
  CHECK(std::abs(normal_quantile(0.975) - 1.959963984540054) < 1e-14);
  CHECK(std::abs(normal_quantile(0.5)) == 0.0);
  CHECK(std::abs(normal_quantile(0.3) + 0.5244005127080407) < 1e-14);
  CHECK(std::abs(normal_quantile(1e-6) + 4.753424308822899) < 1e-13);
  CHECK(std::abs(normal_quantile(1e-20) + 9.262340089798409) < 1e-12);
}

TEST_CASE("standard normal numbers have mean 0, variance 1 and kurtosis 3", "[core]") {
  const auto key = random_key(1234, "decoder.layers.0.mlp.linear_fc1.weight", 0);
  const int n = 200000;
  double sum = 0, squares = 0, fourth = 0;
  for (int i = 0; i < n; ++i) {
    const double x = standard_normal(key, std::uint64_t(i));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  CHECK(std::abs(sum / n) < 0.01);           // 4.5 standard errors
  CHECK(std::abs(squares / n - 1) < 0.015);  // 4.7
  CHECK(std::abs(fourth / n - 3) < 0.1);     // 4.6
}

TEST_CASE("the same name, seed and index give the same bits, on every machine", "[core]") {
  const auto key = random_key(1, "a", 0);
  CHECK(std::bit_cast<std::uint64_t>(standard_normal(key, 7))
        == std::bit_cast<std::uint64_t>(standard_normal(key, 7)));
  CHECK(random_key(1, "a", 0) != random_key(1, "b", 0));
  CHECK(random_key(1, "a", 0) != random_key(2, "a", 0));
  CHECK(random_key(1, "a", 0) != random_key(1, "a", 1));
}

TEST_CASE("normal numbers drawn together equal those drawn one by one, bit for bit", "[core]") {
  const auto key = random_key(77, "a", 0);
  for (const std::uint64_t first :
       {std::uint64_t{0}, std::uint64_t{5}, (std::uint64_t{1} << 34) - 70})
    for (const std::size_t n : {0, 1, 3, 61, 64, 65, 1000, 20000}) {
      std::vector<double> together(n + 1, 7);
      standard_normals(key, first, {together.data(), n});
      CHECK(together[n] == 7);
      std::size_t different = 0;
      for (std::size_t i = 0; i < n; ++i)
        different += std::bit_cast<std::uint64_t>(together[i])
                     != std::bit_cast<std::uint64_t>(standard_normal(key, first + i));
      CAPTURE(first, n);
      CHECK(different == 0);
    }
}

TEST_CASE("uniform numbers fill the interval from 0 to 1 evenly", "[core]") {
  int low = 0;
  for (int i = 0; i < 10000; ++i) {
    const double u = uniform(9, std::uint64_t(i));
    REQUIRE((u >= 0 && u < 1));
    low += u < 0.25;
  }
  CHECK(std::abs(low - 2500) < 200);
}

TEST_CASE("uniform and log-uniform numbers lie between their ends", "[core]") {
  const auto key = random_key(7, "a", 0);
  double mean = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const double u = uniform(key, i);
    CHECK(uniform_between(key, i, -2, 6) == -2 + 8 * u);
    const double x = log_uniform_between(key, i, 1e-3, 0.1);
    CHECK((x >= 1e-3 && x <= 0.1));
    CHECK(std::abs(x / (1e-3 * std::pow(100.0, u)) - 1) < 1e-14);
    mean += std::log(x) / 10000;
  }
  CHECK(std::abs(mean - std::log(1e-2)) < 0.05);
}
