// Routing compared with Megatron-LM's functions: tests/golden/route/README.md.

#include "kernels/op/expert_bias.hpp"
#include "runtime/autograd/route.hpp"
#include "runtime/autograd/router.hpp"
#include "runtime/file/file.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/support/numbers.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using nlohmann::json;
using troupe::tests::relative_error;
namespace kernels = troupe::kernels;

namespace {

using floats = std::vector<float>;
using ints = std::vector<std::int32_t>;

constexpr double tolerance = 2e-6;

template <class T>
std::vector<T> all_of(const tensor& x) {
  const auto all = x.elements<T>();
  return {all.begin(), all.end()};
}

kernels::route_rules rules_of(const json& x) {
  kernels::route_rules out{.E = x["E"], .k = x["k"]};
  out.score = x["score"] == "sigmoid"        ? kernels::route_score::sigmoid
              : x["score"] == "sqrtsoftplus" ? kernels::route_score::sqrt_softplus
              : x["pre_softmax"].get<bool>() ? kernels::route_score::softmax
                                             : kernels::route_score::softmax_of_chosen;
  out.groups = x["groups"];
  out.group_topk = x["group_topk"];
  out.group_best = out.groups > 1 ? out.k / out.group_topk : 1;
  out.scale = x["scale"];
  return out;
}

/// Values of the choices as a matrix of rows and experts.
template <class T>
std::vector<T> spread(const ints& chosen,
                      const std::vector<T>& values,
                      const kernels::route_rules& x) {
  const auto rows = chosen.size() / std::size_t(x.k);
  std::vector<T> out(rows * std::size_t(x.E));
  for (std::size_t i = 0; i < chosen.size(); ++i)
    out[i / std::size_t(x.k) * std::size_t(x.E) + std::size_t(chosen[i])] = values[i];
  return out;
}

double mean(const tensor& sums) {
  return sums.elements<double>()[0] / sums.elements<double>()[1];
}

bool near(double a, double b) {
  return std::abs(a - b) <= tolerance * std::abs(b);
}

}  // namespace

TEST_CASE("routing, its losses and gradients equal Megatron-LM's", "[autograd][route]") {
  const auto golden
      = json::parse(read_text(troupe::tests::source_dir() + "/tests/golden/route/golden.json"));
  const std::int64_t B = golden["B"], T = golden["T"];
  const auto& by = golden["coefficients"];
  REQUIRE(golden["cases"].size() == 13);
  stream on(kernels::backend::reference, 1, {});
  resident_store store({{"unit", {{.name = "gain", .extents = {1}}}}}, 1, {});
  row_layout rows;
  rows.order = uploaded<std::int32_t>(on, ints(std::size_t(B * T)), {B, T});
  for (const auto& x : golden["cases"]) {
    CAPTURE(x["name"].get<std::string>());
    const auto rules = rules_of(x["settings"]);
    const auto E = rules.E, k = rules.k;
    const floats logits = x["logits"], bias = x["bias"], up = x["up"];
    const auto average = [&](const char* name) { return loss_average{by[name].get<float>()}; };
    route_options options{.rules = rules,
                          .balance = {{.average = average("balance")},
                                      {.average = average("sequence"), .by_sequence = true}},
                          .z = average("z")};
    if (!bias.empty())
      options.bias = uploaded<float>(on, bias, {E});
    tape graph(on, store, {});
    graph.begin_segment(0);
    const auto in = graph.make(uploaded<float>(on, logits, {B, T, E}), placement::replicated);
    const auto found = route(graph, in, rows, options);
    graph.end_segment();
    const auto chosen = all_of<std::int32_t>(found.chosen);
    const auto weights = all_of<float>(found.weights.data);
    CHECK(spread(chosen, ints(chosen.size(), 1), rules) == x["chosen"].get<ints>());
    CHECK(relative_error(spread(chosen, weights, rules), x["weights"].get<floats>()) < tolerance);
    CHECK(near(mean(found.balance[0]), x["losses"]["balance"]));
    CHECK(near(mean(found.balance[1]), x["losses"]["sequence"]));
    CHECK(near(mean(found.z), x["losses"]["z"]));

    floats dweights;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      dweights.push_back(up[i / std::size_t(k) * std::size_t(E) + std::size_t(chosen[i])]);
    found.weights.gradient->sum = uploaded<float>(on, dweights, {B, T, k});
    graph.input_gradients(0);
    CHECK(relative_error(all_of<float>(in.gradient->sum), x["gradient"].get<floats>()) < tolerance);

    auto left = chosen;
    drop_rows(left, weights, E, capacity_of(B * T, k, E, 0.75), drop_policy::probability);
    ints kept;
    for (const auto e : left)
      kept.push_back(e >= 0 ? 1 : 0);
    CHECK(spread(chosen, kept, rules) == x["kept"].get<ints>());

    route_options balanced{.rules = {.E = E, .k = k}, .sinkhorn = true};
    tape forward(on, store, {.recording = false});
    forward.begin_segment(0);
    const auto choice = all_of<std::int32_t>(route(forward, in, rows, balanced).chosen);
    forward.end_segment();
    ints wanted;
    for (const auto& row : x["sinkhorn"])
      for (const std::int32_t e : row)
        wanted.push_back(e);
    CHECK(choice == wanted);
  }
}

TEST_CASE("a bias of experts follows the counts of three steps as Megatron-LM's does",
          "[autograd][route]") {
  const auto golden
      = json::parse(read_text(troupe::tests::source_dir() + "/tests/golden/route/steps.json"));
  const std::int64_t R = golden["rows"];
  stream on(kernels::backend::reference, 1, {});
  resident_store store({{"unit", {{.name = "gain", .extents = {1}}}}}, 1, {});
  row_layout rows;
  rows.order = uploaded<std::int32_t>(on, ints(std::size_t(R)), {1, R});
  for (const auto& x : golden["cases"]) {
    CAPTURE(x["name"].get<std::string>());
    const auto rules = rules_of(x["settings"]);
    auto bias = uploaded<float>(on, floats(std::size_t(rules.E)), {rules.E});
    REQUIRE(x["steps"].size() == 3);
    for (const auto& step : x["steps"]) {
      CHECK(all_of<float>(bias) == step["bias"].get<floats>());
      tape forward(on, store, {.recording = false});
      forward.begin_segment(0);
      const auto in
          = forward.make(uploaded<float>(on, step["logits"].get<floats>(), {1, R, rules.E}),
                         placement::replicated);
      const auto found = route(forward, in, rows, {.rules = rules, .bias = bias});
      forward.end_segment();
      const auto chosen = all_of<std::int32_t>(found.chosen);
      CHECK(spread(chosen, ints(chosen.size(), 1), rules) == step["chosen"].get<ints>());
      CHECK(relative_error(spread(chosen, all_of<float>(found.weights.data), rules),
                           step["weights"].get<floats>())
            < tolerance);
      floats counts(std::size_t(rules.E));
      for (const auto expert : chosen)
        ++counts[std::size_t(expert)];
      on.run(kernels::expert_bias_step<float>{
          bias.data<float>(), counts.data(), rules.E, golden["rate"].get<float>()});
      CHECK(all_of<float>(bias) == step["next_bias"].get<floats>());  // multiples of 1 / 8
    }
  }
}

namespace {

json balanced() {
  return json::parse(read_text(troupe::tests::source_dir() + "/tests/golden/route/balanced.json"));
}

/// Routes rows of one sequence without a gradient, and compares with the choices and weights there.
routed compare(tape& graph, const json& there, const floats& logits, const route_options& options) {
  const auto& rules = options.rules;
  const auto R = std::int64_t(logits.size()) / rules.E;
  row_layout rows;
  rows.order = uploaded<std::int32_t>(graph.stream(), ints(std::size_t(R)), {1, R});
  graph.begin_segment(0);
  const auto in
      = graph.make(uploaded<float>(graph.stream(), logits, {1, R, rules.E}), placement::replicated);
  auto found = route(graph, in, rows, options);
  const auto chosen = all_of<std::int32_t>(found.chosen);
  CHECK(spread(chosen, ints(chosen.size(), 1), rules) == there["chosen"].get<ints>());
  CHECK(relative_error(spread(chosen, all_of<float>(found.weights.data), rules),
                       there["weights"].get<floats>())
        < tolerance);
  if (graph.recording()) {
    const floats up = there["up"];
    floats dweights;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      dweights.push_back(
          up[i / std::size_t(rules.k) * std::size_t(rules.E) + std::size_t(chosen[i])]);
    found.weights.gradient->sum = uploaded<float>(graph.stream(), dweights, {1, R, rules.k});
    graph.end_segment();
    graph.input_gradients(0);
    CHECK(relative_error(all_of<float>(in.gradient->sum), there["gradient"].get<floats>())
          < tolerance);
  } else {
    graph.end_segment();
  }
  return found;
}

}  // namespace

TEST_CASE("sinkhorn's weights and gradients are Megatron-LM's", "[autograd][route]") {
  stream on(kernels::backend::reference, 1, {});
  resident_store store({{"unit", {{.name = "gain", .extents = {1}}}}}, 1, {});
  const auto golden = balanced();
  for (const auto& x : golden.at("sinkhorn")) {
    const std::int64_t k = x["k"];
    CAPTURE(k);
    // The scores that gpt_rules.cpp requires beside it.
    const kernels::route_rules rules{
        .E = x["E"],
        .k = k,
        .score = k > 1 ? kernels::route_score::softmax : kernels::route_score::sigmoid,
        .by_logit = true};
    tape training(on, store, {}), evaluation(on, store, {.recording = false});
    compare(training, x, x["logits"], {.rules = rules, .sinkhorn = true});
    compare(evaluation, x["evaluated"], x["logits"], {.rules = rules});
  }
}

TEST_CASE("a bias of quantiles follows the rows of three steps as Megatron-LM's does",
          "[autograd][route]") {
  stream on(kernels::backend::reference, 1, {});
  resident_store store({{"unit", {{.name = "gain", .extents = {1}}}}}, 1, {});
  const auto golden = balanced();
  for (const auto& x : golden.at("quantile")) {
    auto rules = rules_of(x["settings"]);
    rules.by_logit = true;
    CAPTURE(x["settings"]["score"].get<std::string>());
    const float decay = x["decay"];
    REQUIRE(x["steps"].size() == 3);
    for (const auto& step : x["steps"]) {
      const floats bias = step["bias"];
      floats next(bias.size());
      for (const auto& pass : step["passes"]) {
        tape forward(on, store, {.recording = false});
        const route_options options{
            .rules = rules, .bias = uploaded<float>(on, bias, {rules.E}), .quantile = true};
        const auto found = compare(forward, pass, pass["logits"], options);
        const auto part = centred(all_of<float>(found.quantile_bias), 1);
        for (std::size_t e = 0; e < next.size(); ++e)
          next[e] += part[e] / float(step["passes"].size());
      }
      for (std::size_t e = 0; e < next.size(); ++e)
        next[e] = decay * bias[e] + (1 - decay) * next[e];
      CHECK(relative_error(next, step["next_bias"].get<floats>()) < tolerance);
    }
  }
}
