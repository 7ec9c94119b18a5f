#include "kernels/reference/reference.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using namespace troupe::tests;
using kernels::reference::run;

TEST_CASE("rope rotates by a quarter circle", "[kernels][reference][rope]") {
  const auto interleaved = GENERATE(false, true);
  rope_memory<double> t{
      .R = 1, .G = 1, .heads = 1, .D = 5, .rotated = 4, .interleaved = interleaved};
  t.x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  t.position = {1};
  t.frequency = {1.5707963f, 0};
  run(t.turn());
  const auto expected = interleaved ? std::vector<double>{-2, 1, 3, 4, 5, 6, 7, 8, 9, 10}
                                    : std::vector<double>{-3, 2, 1, 4, 5, 6, 7, 8, 9, 10};
  CHECK(relative_error(t.x, expected) < 1e-7);  // pi / 2 is rounded to float
}

TEST_CASE("rope leaves values, the unrotated part of a head and position zero unchanged",
          "[kernels][reference][rope]") {
  const auto interleaved = GENERATE(false, true);
  rope_memory<double> t{
      .R = 3, .G = 2, .heads = 3, .D = 7, .rotated = 4, .interleaved = interleaved};
  t.position = {0, 5, 9};
  const auto before = t.x;
  run(t.turn());
  std::int64_t changed = 0;
  for (std::int64_t i = 0; i < std::int64_t(t.x.size()); ++i) {
    const std::int64_t d = i % t.D, head = i / t.D % (t.heads + 1);
    const std::int64_t r = i / (t.D * (t.heads + 1) * t.G);
    if (d >= t.rotated || head == t.heads || r == 0)
      CHECK(t.x[std::size_t(i)] == before[std::size_t(i)]);
    else
      changed += t.x[std::size_t(i)] != before[std::size_t(i)];
  }
  CHECK(changed == 2 * t.G * t.heads * t.rotated);
}

TEST_CASE("rope backward undoes rope", "[kernels][reference][rope]") {
  const auto interleaved = GENERATE(false, true);
  rope_memory<double> t{
      .R = 5, .G = 2, .heads = 3, .D = 7, .rotated = 6, .interleaved = interleaved};
  const auto before = t.x;
  run(t.turn());
  CHECK(relative_error(t.x, before) > 0.1);
  run(t.turn(true));
  CHECK(relative_error(t.x, before) < 1e-14);  // only rounding errors remain
}

TEST_CASE("the product of a rotated query and key depends only on their distance",
          "[kernels][reference][rope]") {
  const auto interleaved = GENERATE(false, true);
  const auto product_at = [&](std::int32_t query, std::int32_t key) {
    rope_memory<double> t{
        .R = 2, .G = 1, .heads = 1, .D = 8, .rotated = 8, .interleaved = interleaved};
    t.position = {query, key};
    run(t.turn());
    double product = 0;
    for (std::size_t d = 0; d < 8; ++d)
      product += t.x[d] * t.x[16 + d];
    return product;
  };
  CHECK(std::abs(product_at(7, 3) - product_at(1007, 1003)) < 1e-11);  // rounding of 1007 radians
  CHECK(std::abs(product_at(7, 3) - product_at(7, 4)) > 1e-3);
}
