#include "runtime/core/exact_sum.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using troupe::runtime::exact_sum;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Non-negative numbers with exponents between `low` and `high`.
std::vector<double> numbers(std::size_t n, int low, int high, std::uint32_t seed) {
  std::mt19937 rng{seed};
  std::uniform_real_distribution<double> mantissa(0.5, 1);
  std::uniform_int_distribution<int> exponent(low, high);
  std::vector<double> out;
  for (std::size_t i = 0; i < n; ++i)
    out.push_back(i % 17 == 0 ? 0 : std::ldexp(mantissa(rng), exponent(rng)));
  return out;
}

template <class Numbers>
exact_sum sum_of(const Numbers& x) {
  exact_sum out;
  for (const double one : x)
    out += one;
  return out;
}

}  // namespace

TEST_CASE("a sum has the same bits in any order and any split", "[exact_sum]") {
  const int low = GENERATE(-300, -100, -20), high = GENERATE(0, 60, 170);
  CAPTURE(low, high);
  auto x = numbers(1000, low, high, 1);
  const auto expected = sum_of(x);
  CHECK(expected.is_finite());
  std::mt19937 rng{2};
  bool others_differ = false;
  for (int round = 0; round < 20; ++round) {
    std::shuffle(x.begin(), x.end(), rng);
    CHECK(sum_of(x) == expected);
    std::vector<exact_sum> parts(1 + rng() % 9);
    for (const double one : x)
      parts[rng() % parts.size()] += one;
    exact_sum sum;
    for (const auto& part : parts)
      sum += part;
    CHECK(sum == expected);
    double naive = 0;
    for (const double one : x)
      naive += one;
    others_differ = others_differ || naive != expected.value();
  }
  CHECK(others_differ);  // the order of these numbers changes a naive sum
}

TEST_CASE("a sum equals that of long double, up to rounding", "[exact_sum]") {
  for (const auto& [low, high] : {std::pair{-150, -100}, {-30, 30}, {0, 1}, {100, 180}}) {
    CAPTURE(low, high);
    auto x = numbers(1000, low, high, 3);
    std::sort(x.begin(), x.end());  // ascending: keeps the rounding error of long double small
    long double judge = 0;
    for (const double one : x)
      judge += one;
    // Six words are rounded to double and added in descending order: at most 2 ulp.
    CHECK(std::abs(sum_of(x).value() - double(judge)) <= 4.5e-16 * double(judge));
  }
}

TEST_CASE("small whole numbers and powers of two come out exactly", "[exact_sum]") {
  CHECK(exact_sum().value() == 0);
  CHECK(exact_sum(0.0).value() == 0);
  CHECK(exact_sum(-0.0) == exact_sum());
  for (const double x : {1.0, 3.0, 0.75, 1e15, std::ldexp(1.0, -192), std::ldexp(1.0, 189)})
    CHECK(exact_sum(x).value() == x);
  exact_sum sum;
  for (int i = 1; i <= 1000; ++i)
    sum += i;
  CHECK(sum.value() == 500500);
  sum += sum;  // adds it to itself
  CHECK(sum.value() == 1001000);
  // A sum keeps bits that a double cannot hold.
  exact_sum a(std::ldexp(1.0, 60)), b(1);
  a += b;
  CHECK(a != exact_sum(std::ldexp(1.0, 60)));
}

TEST_CASE("carries go through all words", "[exact_sum]") {
  exact_sum sum;
  for (int bit = -192; bit < 189; ++bit)
    sum += std::ldexp(1.0, bit);
  sum += std::ldexp(1.0, -192);
  CHECK(sum == exact_sum(std::ldexp(1.0, 189)));
}

TEST_CASE("values below the smallest unit are truncated in every case", "[exact_sum]") {
  CHECK(exact_sum(std::ldexp(1.0, -193)) == exact_sum());
  CHECK(exact_sum(std::numeric_limits<double>::denorm_min()) == exact_sum());
  exact_sum twice(std::ldexp(0.75, -192));
  twice += std::ldexp(0.75, -192);
  CHECK(twice == exact_sum());  // each addend is truncated before the addition
  CHECK(exact_sum(std::ldexp(1.5, -192)) == exact_sum(std::ldexp(1.0, -192)));
}

TEST_CASE("infinity, NaN and values out of range make the sum infinite for good", "[exact_sum]") {
  const double bad = GENERATE(infinity,
                              std::numeric_limits<double>::quiet_NaN(),
                              std::numeric_limits<double>::max(),
                              std::ldexp(1.0, 190),
                              std::ldexp(1.0, 192),
                              std::ldexp(1.0, 250));
  CAPTURE(bad);
  exact_sum sum(1);
  CHECK(sum.is_finite());
  sum += bad;
  CHECK(!sum.is_finite());
  CHECK(sum.value() == infinity);
  sum += 1;
  CHECK(!sum.is_finite());
  exact_sum other(2);
  other += sum;
  CHECK(!other.is_finite());
  CHECK(other.value() == infinity);
}

TEST_CASE("a sum that grows too large becomes infinite in any order", "[exact_sum]") {
  const double half = std::ldexp(1.0, 189);
  exact_sum one(half);
  CHECK(one.is_finite());
  one += half;
  CHECK(!one.is_finite());
  exact_sum a(half), b(half);
  a += b;
  CHECK(!a.is_finite());
  exact_sum many;
  for (int i = 0; i < 100; ++i)
    many += half;
  CHECK(!many.is_finite());
}
