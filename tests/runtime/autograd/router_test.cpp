// Capacities of experts, and statistics.

#include "runtime/autograd/router.hpp"

#include "runtime/parameters/resident_store.hpp"
#include "runtime/tensor/moves.hpp"

#include <catch2/catch_test_macros.hpp>

#include <limits>

using namespace troupe::runtime;
namespace kernels = troupe::kernels;

namespace {

using choices = std::vector<std::int32_t>;

choices limited(choices chosen, const std::vector<float>& weights, drop_policy policy) {
  drop_rows(chosen, weights, 3, 2, policy);
  return chosen;
}

}  // namespace

TEST_CASE("the capacity of an expert is rounded up and at most the number of rows",
          "[autograd][route]") {
  CHECK(capacity_of(8, 2, 4, 1) == 4);
  CHECK(capacity_of(8, 2, 4, 0.9) == 4);
  CHECK(capacity_of(9, 1, 4, 1) == 3);
  CHECK(capacity_of(5, 2, 3, 1e300) == 5);
  CHECK(capacity_of(0, 2, 4, 1.5) == 0);
}

TEST_CASE("rows beyond the capacity of an expert are dropped by weight or position",
          "[autograd][route]") {
  const choices chosen{0, 1, 0, 2, 0, 1, 0, 2};
  const std::vector<float> weights{0.1F, 0.2F, 0.4F, 0.5F, 0.3F, 0.2F, 0.4F, 0.1F};
  CHECK(limited(chosen, {}, drop_policy::position) == choices{0, 1, 0, 2, -1, 1, -1, 2});
  CHECK(limited(chosen, weights, drop_policy::probability) == choices{-1, 1, 0, 2, -1, 1, 0, 2});
  CHECK(rows_of_each(chosen, 3) == std::vector<std::int64_t>{4, 2, 2});
  CHECK(rows_of_each({-1, 1, 0, 2, -1, 1, 0, 2}, 3) == std::vector<std::int64_t>{2, 2, 2});
}

TEST_CASE("of equal weights the first rows stay, and a NaN is the largest weight",
          "[autograd][route]") {
  constexpr auto nan = std::numeric_limits<float>::quiet_NaN();
  const choices chosen{1, 1, 1, 1};
  CHECK(limited(chosen, {1, 1, 1, 1}, drop_policy::probability) == choices{1, 1, -1, -1});
  CHECK(limited(chosen, {1, 2, nan, 1}, drop_policy::probability) == choices{-1, 1, 1, -1});
}

TEST_CASE("a statistic is added by W alone, and a frozen one never", "[autograd][route]") {
  using floats = std::vector<float>;
  stream on(kernels::backend::cpu, 1, {});
  for (const bool frozen : {false, true}) {
    resident_store store(
        {{"unit", {{.name = "bias", .extents = {3}, .frozen = frozen, .keep_f32 = true}}}}, 1, {});
    const auto run = [&](bool w) {
      tape graph(on, store, {});
      for (const auto& sums : {floats{1, 2, 3}, floats{4, 0, 1}}) {
        graph.begin_segment(0);
        add_statistic(graph, uploaded(on, sums, {3}), 0);
        graph.end_segment();
      }
      for (const int s : {1, 0})
        graph.input_gradients(s);
      for (const int s : {1, 0})
        if (w)
          graph.weight_gradients(s);
    };
    const auto sums = [&] {
      const float* const from = store.gradients(0, 0);
      return floats(from, from + 3);
    };
    run(false);
    if (!frozen)
      CHECK(sums() == floats(3));
    run(true);  // a frozen one has no gradient: STORE-9
    if (frozen)
      continue;
    CHECK(sums() == floats{5, 2, 4});
    run(true);
    CHECK(sums() == floats{10, 4, 8});
    store.zero_gradients();
    run(true);  // the first one of a step overwrites
    CHECK(sums() == floats{5, 2, 4});
  }
}
