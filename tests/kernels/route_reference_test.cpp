// The router's reference: known choices, weights and losses.

#include "kernels/reference/reference.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace troupe;
using kernels::route_score;
using kernels::reference::run;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// A router over the given rows of logits.
struct router {
  kernels::route_rules rules;
  std::vector<double> logits;
  std::vector<double> bias = {};
  std::int64_t R = std::int64_t(logits.size()) / rules.E;
  std::vector<std::int32_t> chosen = std::vector<std::int32_t>(std::size_t(R * rules.k));
  std::vector<double> weights = std::vector<double>(chosen.size());
  std::vector<double> lse = std::vector<double>(std::size_t(R)), total = lse, cutoff = lse;

  kernels::route<double> op() {
    return {.chosen = chosen.data(),
            .weights = weights.data(),
            .lse = lse.data(),
            .total = kernels::scores_alone(rules) ? total.data() : nullptr,
            .cutoff = cutoff.data(),
            .logits = logits.data(),
            .bias = bias.empty() ? nullptr : bias.data(),
            .given = nullptr,
            .R = R,
            .rules = rules};
  }
};

using choice = std::vector<std::int32_t>;

choice choice_of(router x) {
  run(x.op());
  return x.chosen;
}

bool near(double a, double b) {
  return std::abs(a - b) < 1e-12;
}

}  // namespace

TEST_CASE("a router chooses the largest keys, equal ones by expert",
          "[kernels][reference][route]") {
  CHECK(choice_of({{.E = 4, .k = 2}, {1, 3, 2, 0}}) == choice{1, 2});
  CHECK(choice_of({{.E = 4, .k = 3}, {5, 5, 5, 5}}) == choice{0, 1, 2});
  CHECK(choice_of({{.E = 4, .k = 4}, {0, 1, 0, 1}}) == choice{1, 3, 0, 2});
  CHECK(choice_of({{.E = 1, .k = 1}, {-7}}) == choice{0});
  CHECK(choice_of({{.E = 4, .k = 2}, {}}).empty());
  CHECK(choice_of({{.E = 4, .k = 2}, {-infinity, -infinity, 1, -infinity}}) == choice{2, 0});
  CHECK(choice_of({{.E = 4, .k = 2}, {9, 1, not_a_number, 2}}) == choice{2, 0});
  CHECK(choice_of({{.E = 3, .k = 1}, {1, 2, 3}, {3, 0, 0}}) == choice{0});
}

TEST_CASE("the weights of a row are NaN if it has a NaN logit", "[kernels][reference][route]") {
  for (const auto score : kernels::every_route_score) {
    router x{{.E = 3, .k = 2, .score = score}, {1, not_a_number, 2}};
    run(x.op());
    CHECK(std::isnan(x.weights[0]));
    CHECK(std::isnan(x.weights[1]));
  }
}

TEST_CASE("the weights follow from the score", "[kernels][reference][route]") {
  const std::vector<double> logits{std::log(1), std::log(2), std::log(4), std::log(1)};
  const auto weights = [&](route_score score, std::int64_t k) {
    router x{{.E = 4, .k = k, .score = score, .scale = 2}, logits};
    run(x.op());
    CHECK(x.chosen[0] == 2);
    CHECK(near(x.lse[0], std::log(8)));
    return x.weights;
  };
  // Sigmoids: 4/5 and 2/3. Softpluses: log 5 and log 3.
  CHECK(near(weights(route_score::softmax_of_chosen, 2)[0], 2 * 4.0 / 6));
  CHECK(near(weights(route_score::softmax, 2)[1], 2 * 2.0 / 8));
  CHECK(near(weights(route_score::sigmoid, 2)[0], 2 * 0.8 / (0.8 + 2.0 / 3)));
  CHECK(near(weights(route_score::sigmoid, 1)[0], 2 * 0.8));
  const double a = std::sqrt(std::log(5)), b = std::sqrt(std::log(3));
  CHECK(near(weights(route_score::sqrt_softplus, 2)[1], 2 * b / (a + b)));
}

TEST_CASE("a grouped router chooses within the groups with the largest sums",
          "[kernels][reference][route]") {
  // Sums of the two largest of each group: 9, 10, 8. The largest logit is in the last group.
  const std::vector<double> logits{5, 4, 0, 6, 4, 3, 8, 0, -1};
  kernels::route_rules rules{.E = 9, .k = 2, .groups = 3, .group_topk = 1, .group_best = 2};
  CHECK(choice_of({rules, logits}) == choice{3, 4});
  rules.group_topk = 2;
  rules.k = 4;
  CHECK(choice_of({rules, logits}) == choice{3, 0, 1, 4});
  rules.group_best = 1;  // sums 5, 6, 8
  CHECK(choice_of({rules, logits}) == choice{6, 3, 4, 5});
}

TEST_CASE("a router replays a choice and balances by row number", "[kernels][reference][route]") {
  router x{{.E = 4, .k = 2}, {1, 2, 3, 4, 4, 3, 2, 1}};
  const choice given{0, 2, 3, 1};
  auto op = x.op();
  op.given = given.data();
  run(op);
  CHECK(x.chosen == given);
  CHECK(near(x.weights[0], 1 / (1 + std::exp(2))));
  CHECK(x.cutoff == std::vector<double>{4, 4});
  op.given = nullptr;
  op.round_robin = true;
  op.first_row = 3;
  run(op);
  CHECK(x.chosen == choice{2, 3, 0, 1});
}

TEST_CASE("Megatron-LM's example of the load balancing loss", "[kernels][reference][route]") {
  const std::vector<double> sums{2.6, 1.4, 7};
  const std::vector<std::uint64_t> counts{3, 1};
  std::vector<double> balance(2), z(2), slope(2);
  run(kernels::route_losses<double>{.balance = balance.data(),
                                    .z = z.data(),
                                    .dprobabilities = slope.data(),
                                    .sums = sums.data(),
                                    .counts = counts.data(),
                                    .counts_of_all = nullptr,
                                    .parts = 1,
                                    .S = 1,
                                    .E = 2,
                                    .k = 1,
                                    .T_ = 4,
                                    .dmean = 0.01});
  CHECK(near(0.01 * balance[0] / balance[1], 0.0115));
  CHECK(balance[1] == 4);
  CHECK(z == std::vector<double>{7, 4});
  CHECK(near(slope[0], 0.01 * 2 * 3 / 16));
  CHECK(near(slope[1], 0.01 * 2 * 1 / 16));
}

TEST_CASE("sums of probabilities have the rows of each sequence, counts are exact",
          "[kernels][reference][route]") {
  router x{{.E = 2, .k = 1}, {0, 0, std::log(3), 0, 0, std::log(3)}};
  run(x.op());
  std::vector<double> sums(5);
  std::vector<std::uint64_t> counts(4);
  // The rows are those from row 1 on of two sequences with two rows.
  run(kernels::route_sums<double>{.sums = sums.data(),
                                  .counts = counts.data(),
                                  .logits = x.logits.data(),
                                  .chosen = x.chosen.data(),
                                  .lse = x.lse.data(),
                                  .total = nullptr,
                                  .R = 3,
                                  .S = 2,
                                  .T_ = 2,
                                  .rules = x.rules,
                                  .first_row = 1});
  CHECK(near(sums[0], 0.5));
  CHECK(near(sums[1], 0.5));
  CHECK(near(sums[2], 1));
  CHECK(near(sums[3], 1));
  CHECK(near(sums[4], std::pow(std::log(2), 2) + 2 * std::pow(std::log(4), 2)));
  CHECK(counts == std::vector<std::uint64_t>{1, 0, 1, 1});
}

TEST_CASE("sinkhorn's bias makes equal use of the experts", "[kernels][reference][route]") {
  // Expert 0 is the best of every row.
  std::vector<double> logits;
  for (int r = 0; r < 60; ++r)
    for (int e = 0; e < 4; ++e)
      logits.push_back(3 * std::sin(r * 1.7 + e * 2.3) + (e == 0 ? 8 : 0));
  router x{{.E = 4, .k = 1, .score = route_score::sigmoid, .by_logit = true}, logits};
  CHECK(std::ranges::count(choice_of(x), 0) == 60);
  x.bias.resize(4);
  run(kernels::sinkhorn<double>{.bias = x.bias.data(), .logits = logits.data(), .R = 60, .E = 4});
  const auto chosen = choice_of(x);
  for (int e = 0; e < 4; ++e)
    CHECK(std::abs(std::ranges::count(chosen, e) - 15) <= 3);
}

TEST_CASE(
    "with the bias of its quantile an expert exceeds the cutoffs of at most its share of rows",
    "[kernels][reference][route]") {
  std::vector<double> logits;
  for (int i = 0; i < 40 * 5; ++i)
    logits.push_back(3 * std::sin(i * 1.7) + i % 5);
  router x{{.E = 5, .k = 2, .score = route_score::sigmoid}, logits};
  run(x.op());
  std::vector<double> bias(5);
  run(kernels::expert_quantile<double>{.bias = bias.data(),
                                       .logits = logits.data(),
                                       .lse = x.lse.data(),
                                       .cutoff = x.cutoff.data(),
                                       .R = 40,
                                       .rules = x.rules});
  for (std::size_t e = 0; e < 5; ++e) {
    int above = 0, reached = 0;
    for (std::size_t r = 0; r < 40; ++r) {
      const double margin = 1 / (1 + std::exp(-logits[r * 5 + e])) - x.cutoff[r] + bias[e];
      above += margin > 1e-14 ? 1 : 0;
      reached += margin > -1e-14 ? 1 : 0;
    }
    CHECK(above <= 40 * 2 / 5);
    CHECK(reached > 40 * 2 / 5);
  }
}
