// The global balance loss: it counts the rows of all replicas, in all micro-batches of the step so
// far. Its golden values are Megatron-LM's: tests/golden/route/README.md.

#include "runtime/autograd/step_counts.hpp"

#include "runtime/autograd/route.hpp"
#include "runtime/collective/local/local_group.hpp"
#include "runtime/file/file.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/support/numbers.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using nlohmann::json;
using troupe::tests::normal;
using troupe::tests::relative_error;
namespace kernels = troupe::kernels;

namespace {

using floats = std::vector<float>;

struct pass_of_replica {
  double loss = 0;  ///< of this replica's rows
  floats gradient;
};
/// By replica and micro-batch.
template <class T>
using step_of = std::vector<std::vector<T>>;

struct setting {
  std::int64_t B = 1, T = 1;
  kernels::route_rules rules;
  float scale = 1;
  int tensor = 1;
};

/// One step. `logits` have B T rows. Each rank has a thread, and tensor ranks share the rows.
step_of<pass_of_replica> routed_step(const setting& x, const step_of<floats>& logits) {
  const auto replicas = logits.size(), parts = std::size_t(x.tensor);
  const cancel_token token;
  std::vector<std::shared_ptr<local_group>> of_replica, of_part;
  for (std::size_t d = 0; d < replicas; ++d)
    of_replica.push_back(std::make_shared<local_group>(axis::tensor, x.tensor, token));
  for (std::size_t t = 0; t < parts; ++t)
    of_part.push_back(std::make_shared<local_group>(axis::data, int(replicas), token));
  std::vector<step_of<pass_of_replica>> found(parts, step_of<pass_of_replica>(replicas));
  std::vector<std::string> failures(replicas * parts);
  const auto run = [&](std::size_t d, std::size_t t) {
    local_communicator rows_of(of_replica[d], int(t)), replicas_of(of_part[t], int(d));
    stream on(kernels::backend::reference, 1, {});
    resident_store store({{"unit", {{.name = "gain", .extents = {1}}}}}, 1, {});
    row_layout rows;
    rows.order
        = uploaded<std::int32_t>(on, std::vector<std::int32_t>(std::size_t(x.B * x.T)), {x.B, x.T});
    step_counts counts(replicas > 1 ? &replicas_of : nullptr);
    for (const auto& all : logits[d]) {
      const auto share = std::ptrdiff_t(all.size() / parts);
      const floats mine(all.begin() + std::ptrdiff_t(t) * share,
                        all.begin() + std::ptrdiff_t(t + 1) * share);
      tape graph(on,
                 store,
                 {.groups = {{axis::tensor, parts > 1 ? &rows_of : nullptr}},
                  .sequence_parallel = parts > 1});
      graph.begin_segment(0);
      const auto R = share / x.rules.E;
      const auto in = graph.make(uploaded<float>(on, mine, {R, x.rules.E}),
                                 parts > 1 ? placement::sequence_sharded : placement::replicated);
      const auto result = route(
          graph,
          in,
          rows,
          {.rules = x.rules, .balance = {{.average = {x.scale}, .counts = [&](const tensor& now) {
                                            return counts.add(on, 0, now, x.B * x.T, true);
                                          }}}});
      graph.end_segment();
      result.weights.gradient->sum
          = uploaded<float>(on, floats(std::size_t(R * x.rules.k)), {R, x.rules.k});
      graph.input_gradients(0);
      const auto sums = result.balance[0].elements<double>();
      const auto gradient = in.gradient->sum.elements<float>();
      found[t][d].push_back({sums[0] / sums[1], {gradient.begin(), gradient.end()}});
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < failures.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        run(i / parts, i % parts);
      } catch (const std::exception& failure) {
        failures[i] = failure.what();
        token.cancel();
      }
    });
  for (auto& thread : threads)
    thread.join();
  for (const auto& failure : failures)
    REQUIRE(failure == std::string());
  for (std::size_t t = 1; t < parts; ++t)
    for (std::size_t d = 0; d < replicas; ++d)
      for (std::size_t m = 0; m < logits[d].size(); ++m) {
        auto &whole = found[0][d][m], &part = found[t][d][m];
        CHECK(part.loss == whole.loss);
        whole.gradient.insert(whole.gradient.end(), part.gradient.begin(), part.gradient.end());
      }
  return found[0];
}

using doubles = std::vector<double>;

/// The probabilities of a row, and their slopes by the logit of the same expert but for the sum.
std::pair<doubles, doubles> probabilities(const float* row, std::int64_t E, bool sigmoid) {
  doubles scores, slopes;
  for (std::int64_t e = 0; e < E; ++e) {
    const double s = sigmoid ? 1 / (1 + std::exp(-double(row[e]))) : std::exp(double(row[e]));
    scores.push_back(s);
    slopes.push_back(sigmoid ? s * (1 - s) : s);
  }
  const double total = std::accumulate(scores.begin(), scores.end(), 0.0);
  for (std::int64_t e = 0; e < E; ++e) {
    scores[std::size_t(e)] /= total;
    slopes[std::size_t(e)] /= total;
  }
  return {scores, slopes};
}

/// The same step by the formula in double, one row after another.
step_of<pass_of_replica> by_hand(const setting& x, const step_of<floats>& logits) {
  const auto E = x.rules.E, k = x.rules.k, R = x.B * x.T;
  const bool sigmoid = x.rules.score == kernels::route_score::sigmoid;
  step_of<pass_of_replica> out(logits.size());
  doubles counts(std::size_t(E), 0.0);
  double rows = 0;
  for (std::size_t m = 0; m < logits[0].size(); ++m) {
    for (const auto& replica : logits) {
      for (std::int64_t r = 0; r < R; ++r) {
        const auto* const row = replica[m].data() + r * E;
        for (std::int64_t e = 0; e < E; ++e)
          counts[std::size_t(e)]
              += std::count_if(row, row + E, [&](float y) { return y > row[e]; }) < k ? 1 : 0;
      }
      rows += double(R);
    }
    for (std::size_t d = 0; d < logits.size(); ++d) {
      pass_of_replica now;
      for (std::int64_t r = 0; r < R; ++r) {
        const auto [p, slope] = probabilities(logits[d][m].data() + r * E, E, sigmoid);
        double sum = 0;
        doubles share;
        for (std::size_t e = 0; e < p.size(); ++e) {
          share.push_back(double(E) / double(k) * counts[e] / rows / double(R));
          sum += p[e] * share[e];
        }
        now.loss += sum;
        for (std::size_t e = 0; e < p.size(); ++e)
          now.gradient.push_back(float(double(x.scale) * slope[e] * (share[e] - sum)));
      }
      out[d].push_back(std::move(now));
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a global balance loss counts all replicas in the step so far", "[autograd][route]") {
  setting x{.B = 2, .T = 4, .rules = {.E = 5, .k = 2}, .scale = 0.7F};
  x.rules.score = GENERATE(kernels::route_score::softmax, kernels::route_score::sigmoid);
  x.tensor = GENERATE(1, 2);
  const auto replicas = GENERATE(std::size_t{1}, std::size_t{2});
  CAPTURE(int(x.rules.score), x.tensor, replicas);
  step_of<floats> logits(replicas);
  for (std::size_t d = 0; d < replicas; ++d)
    for (std::size_t m = 0; m < 3; ++m)
      logits[d].push_back(normal<float>(8 * 5, std::uint32_t(10 * d + m)));
  const auto found = routed_step(x, logits), expected = by_hand(x, logits);
  for (std::size_t d = 0; d < replicas; ++d)
    for (std::size_t m = 0; m < 3; ++m) {
      CAPTURE(d, m);
      // Sums of eight probabilities in float.
      CHECK(std::abs(found[d][m].loss - expected[d][m].loss) < 1e-6);
      CHECK(relative_error(found[d][m].gradient, expected[d][m].gradient) < 1e-5);
    }
}

TEST_CASE("counts of a step add up until the next one, and those of an evaluation do not",
          "[autograd][route]") {
  stream on(kernels::backend::reference, 1, {});
  step_counts of;
  const auto add = [&](int segment, const std::vector<std::uint64_t>& counts, bool accumulates) {
    const auto now = uploaded<std::uint64_t>(on, counts, {1, 2, 2});
    const auto out = of.add(on, segment, now, 4, accumulates);
    const auto all = out.counts.elements<std::uint64_t>();
    CHECK(all[0] + all[1] == std::uint64_t(out.rows));  // one expert for each row
    return all[0];
  };
  CHECK(add(3, {1, 1, 2, 0}, true) == 3);
  CHECK(add(3, {0, 2, 1, 1}, true) == 4);
  CHECK(add(5, {0, 2, 1, 1}, true) == 1);  // another router
  of.begin_step();
  CHECK(add(3, {1, 1, 2, 0}, true) == 3);
  CHECK(add(3, {0, 2, 1, 1}, false) == 1);
  CHECK(add(3, {0, 2, 0, 2}, false) == 0);
}

TEST_CASE("a global balance loss and its gradient equal Megatron-LM's", "[autograd][route]") {
  const auto golden
      = json::parse(read_text(troupe::tests::source_dir() + "/tests/golden/route/global.json"));
  REQUIRE(golden["cases"].size() == 2);
  for (const auto& x : golden["cases"]) {
    CAPTURE(x["score"].get<std::string>());
    step_of<floats> logits;
    for (const auto& replica : x["replicas"]) {
      auto& to = logits.emplace_back();
      for (const auto& pass : replica)
        to.push_back(pass["logits"].get<floats>());
    }
    const auto replicas = double(logits.size()), microbatches = double(logits[0].size());
    setting how{.T = golden["R"], .rules = {.E = golden["E"], .k = golden["k"]}};
    how.rules.score
        = x["score"] == "sigmoid" ? kernels::route_score::sigmoid : kernels::route_score::softmax;
    // A worker's loss scale, and the weight of a loss over replicas.
    how.scale = float(golden["coefficient"].get<double>() / (microbatches * replicas) / replicas);
    const auto found = routed_step(how, logits);
    for (std::size_t d = 0; d < logits.size(); ++d)
      for (std::size_t m = 0; m < logits[d].size(); ++m) {
        CAPTURE(d, m);
        const auto& expected = x["replicas"][d][m];
        // Megatron-LM's log adds the parts of the replicas; a report has the mean.
        const auto part = expected["loss"].get<double>() * replicas;
        CHECK(std::abs(found[d][m].loss - part) < 2e-6 * part);
        CHECK(relative_error(found[d][m].gradient, expected["gradient"].get<floats>()) < 2e-6);
      }
  }
}
