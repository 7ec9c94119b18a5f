#include "kernels/reference/reference.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using namespace troupe::tests;
using kernels::reference::run;

namespace {

/// The factors m, obtained as the dropout of ones.
std::vector<double> mask(dropout_memory<double> t) {
  t.with_residual = false;
  std::fill(t.x.begin(), t.x.end(), 1.0);
  run(t.forward());
  return t.y;
}

}  // namespace

TEST_CASE("dropout drops with its probability and keeps the mean",
          "[kernels][reference][dropout]") {
  const auto p = GENERATE(0.1f, 0.5f, 0.9f);
  const auto m = mask({.sequences = 4, .T_ = 100, .C = 250, .p = p});
  const double n = double(m.size()), keep = 1 - double(p);
  const auto dropped = double(std::count(m.begin(), m.end(), 0.0));
  CHECK(dropped + double(std::count(m.begin(), m.end(), 1 / keep)) == n);
  // Five standard deviations of a binomial distribution. The seed is fixed, so the result is
  // constant.
  CHECK(std::abs(dropped / n - p) < 5 * std::sqrt(p * keep / n));
}

TEST_CASE("neighbours are dropped independently", "[kernels][reference][dropout]") {
  const auto m = mask({.sequences = 4, .T_ = 100, .C = 250, .p = 0.5f});
  for (const std::size_t distance : {1, 2, 3, 4, 250, 25000}) {  // word, block, row, sequence
    double both = 0;
    const std::size_t n = m.size() - distance;
    for (std::size_t i = 0; i < n; ++i)
      both += m[i] == 0 && m[i + distance] == 0;
    CHECK(std::abs(both / double(n) - 0.25) < 5 * std::sqrt(0.25 * 0.75 / double(n)));
  }
}

TEST_CASE("the mask of a sample is independent of its batch", "[kernels][reference][dropout]") {
  dropout_memory<double> whole{.sequences = 4, .T_ = 3, .C = 5, .p = 0.5f};
  whole.sample = {7, 8, 9, 1ull << 40};
  const auto expected = mask(whole);
  for (std::size_t s = 0; s < 4; ++s) {
    dropout_memory<double> alone{.sequences = 1, .T_ = 3, .C = 5, .p = 0.5f};
    alone.sample = {whole.sample[s]};
    const auto m = mask(alone);
    CHECK(std::equal(m.begin(), m.end(), expected.begin() + std::ptrdiff_t(15 * s)));
  }
}

TEST_CASE("the mask depends on sample and key", "[kernels][reference][dropout]") {
  dropout_memory<double> t{.sequences = 1, .T_ = 8, .C = 8, .p = 0.5f};
  const auto m = mask(t);
  ++t.sample[0];
  const auto other_sample = mask(t);
  CHECK(m != other_sample);
  --t.sample[0];
  ++t.key;
  CHECK(m != mask(t));
}

TEST_CASE("dropout adds the residual and uses the same mask in both passes",
          "[kernels][reference][dropout][gradient]") {
  dropout_memory<double> t{.sequences = 2, .T_ = 3, .C = 5, .p = 0.3f};
  const auto m = mask(t);
  run(t.forward());
  run(t.backward());
  for (std::size_t i = 0; i < m.size(); ++i) {
    CHECK(t.y[i] == t.residual[i] + t.x[i] * m[i]);
    CHECK(t.dx[i] == t.dy[i] * m[i]);
  }
  auto in_place = t.forward();
  in_place.y = t.residual.data();
  run(in_place);
  CHECK(t.residual == t.y);
}

TEST_CASE("dropout with p = 0 accepts null samples", "[kernels][reference][dropout]") {
  dropout_memory<double> t{.sequences = 2, .T_ = 3, .C = 5, .p = 0, .with_residual = false};
  REQUIRE(t.forward().sample == nullptr);
  run(t.forward());
  run(t.backward());
  CHECK(t.y == t.x);
  CHECK(t.dx == t.dy);
}

TEST_CASE(
    "dropout of row ranges on the reference equals dropout of the whole, with residual and bias",
    "[kernels][reference][dropout]") {
  const float p = GENERATE(0.0f, 0.3f);
  const bool residual = GENERATE(false, true);
  dropout_memory<double> whole{
      .sequences = 3, .T_ = 7, .C = 133, .p = p, .with_residual = residual, .with_bias = true};
  auto parts = whole;
  run(whole.forward());
  run(whole.backward());
  for (const auto& [begin, end] : {std::pair{0, 2}, {2, 10}, {10, 11}, {11, 21}}) {
    auto forward = parts.forward();
    const std::int64_t at = begin * whole.C;
    forward.y += at;
    forward.x += at;
    if (residual)
      forward.residual += at;
    forward.R = end - begin;
    forward.first_row = begin;
    run(forward);
    auto backward = parts.backward();
    backward.dx += at;
    backward.dy += at;
    backward.R = end - begin;
    backward.first_row = begin;
    run(backward);
  }
  CHECK(parts.y == whole.y);
  CHECK(parts.dx == whole.dx);
}
