#include "kernels/reference/reference.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>

#include <limits>

using namespace troupe;
using namespace troupe::tests;
using kernels::reference::run;

namespace {

/// The formula in double, because the operation stores the loss as float.
double total(const cross_entropy_memory<double>& t) {
  double sum = 0;
  for (std::int64_t r = 0; r < t.R; ++r) {
    const double* logits = t.logits.data() + r * t.V;
    double exponentials = 0;
    for (std::int64_t v = 0; v < t.vocabulary; ++v)
      exponentials += std::exp(logits[v]);
    sum += (std::log(exponentials) - logits[t.target[r]]) * t.dloss[r];
  }
  return sum;
}

}  // namespace

TEST_CASE("the loss of equal logits is the logarithm of the unpadded vocabulary size",
          "[kernels][reference][cross_entropy]") {
  cross_entropy_memory<double> t{.R = 3, .V = 8, .vocabulary = 5};
  std::fill(t.logits.begin(), t.logits.end(), 1000.0);  // exp(1000) overflows
  for (std::int64_t r = 0; r < t.R; ++r)
    std::fill_n(t.logits.begin() + r * t.V + t.vocabulary, 3, 2000.0);
  run(t.forward());
  CHECK(relative_error(t.loss, std::vector<double>(3, std::log(5.0))) < 1e-7);  // stored as float
  CHECK(relative_error(t.lse, std::vector<double>(3, 1000 + std::log(5.0))) < 1e-7);

  run(t.backward());
  for (std::int64_t r = 0; r < t.R; ++r) {
    for (std::int64_t v = t.vocabulary; v < t.V; ++v)
      CHECK(t.dlogits[r * t.V + v] == 0);
  }
}

TEST_CASE("cross-entropy matches the formula", "[kernels][reference][cross_entropy]") {
  cross_entropy_memory<double> t{.R = 7, .V = 13, .vocabulary = 11};
  run(t.forward());
  double sum = 0;
  for (std::size_t r = 0; r < t.loss.size(); ++r)
    sum += double(t.loss[r]) * t.dloss[r];
  CHECK(std::abs(sum - total(t)) < 1e-6);  // 7 losses near 3, stored as float

  const auto loss = t.loss;
  auto op = t.forward();
  op.lse = nullptr;
  run(op);
  CHECK(t.loss == loss);
}

TEST_CASE("a masked row has a gradient of exactly zero, even with infinite logits",
          "[kernels][reference][cross_entropy]") {
  cross_entropy_memory<double> t{.R = 3, .V = 4, .vocabulary = 4};
  REQUIRE(t.dloss[2] == 0);
  t.logits[8] = std::numeric_limits<double>::infinity();
  t.logits[9] = -std::numeric_limits<double>::infinity();
  run(t.forward());
  run(t.backward());
  for (std::size_t v = 0; v < 4; ++v) {
    CHECK(t.dlogits[8 + v] == 0);
    CHECK(t.dlogits[v] != 0);
  }
}
