// Operations of experts on a tape: gradients by finite differences, types of weights, no rows,
// GROUP-1, GROUP-3.

#include "runtime/autograd/experts.hpp"

#include "runtime/core/error.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/support/layer_store.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <functional>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

/// 4 rows with 2 slots each; slot 1 of row 0 is dropped, and slot row 3 is padding.
constexpr std::int64_t R = 4, C = 6, slots = 2, S = 8, E = 3, N = 5;
const std::vector<std::int32_t> place{2, 7, 0, -1, 4, 3, 5, 6};
const std::vector<std::int32_t> slot{2, -1, 0, 5, 4, 6, 7, 1};

using numbers = std::vector<float>;

/// A weight (E, N, C) and a bias (E, N); accumulates their gradients.
class expert_store : public layer_store {
 public:
  expert_store() : layer_store(2) {}
  void acquire(int) override {}
  void release(int) override {}
  dtype type() const override { return dtype::f32; }
  const void* value(int, int index) const override { return values_of[index].data(); }
  float* gradient(int, int index, int) override { return gradients_of[index].data(); }
  void emit(int) override {}
  numbers values_of[2] = {normal<float>(E * N * C, 21), normal<float>(E* N, 22)};
  numbers gradients_of[2] = {numbers(E * N * C), numbers(E* N)};
};

struct bf16_store final : expert_store {
  dtype type() const override { return dtype::bf16; }
};

/// A variable of the operation under test, and its gradient.
struct argument {
  numbers values;
  shape extents;
  placement along_experts = placement::replicated;
  numbers gradient = {};
};
using operation = std::function<variable(tape&, std::vector<variable>&)>;

/// Runs an operation, and its backward pass for the loss sum y[i] cos(i). Returns the loss.
double run(const operation& op, std::vector<argument>& arguments, expert_store& store) {
  stream on(kernels::backend::reference, 1, {});
  tape graph(on, store, {});
  graph.begin_segment(0);
  std::vector<variable> variables;
  for (const auto& x : arguments)
    variables.push_back(
        graph.make(uploaded(on, x.values, x.extents), {{axis::expert_tensor, x.along_experts}}));
  const auto y = op(graph, variables);
  graph.end_segment();
  const auto result = elements_of<float>(on, y.data);
  numbers slope(result.size());
  double loss = 0;
  for (std::size_t i = 0; i < slope.size(); ++i) {
    slope[i] = float(std::cos(double(i)));
    loss += double(result[i]) * double(slope[i]);
  }
  graph.add(*y.gradient, uploaded(on, slope, y.data.extents()));
  graph.input_gradients(0);
  graph.weight_gradients(0);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    arguments[i].gradient = elements_of<float>(on, variables[i].gradient->sum);
  return loss;
}

/// Compares gradients with central differences. A loss is a sum of some dozen floats of about 1,
/// with a rounding error below 1e-5; over a step of 1/256 that is 1e-3. Where the
/// slope of an activation has a kink, a difference is off by half a step. A mistake in a formula
/// is ten times larger.
void check_slopes(const std::string& of,
                  numbers& values,
                  const numbers& gradient,
                  const std::function<double()>& loss) {
  REQUIRE(values.size() == gradient.size());
  constexpr float h = 1.0F / 256;
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(of, i);
    const float at = values[i];
    values[i] = at + h;
    const double up = loss();
    values[i] = at - h;
    const double down = loss();
    values[i] = at;
    CHECK(std::abs((up - down) / (2 * h) - double(gradient[i])) < 5e-3);
  }
}

void check_all(const operation& op, std::vector<argument> arguments, bool with_parameters = false) {
  expert_store store;
  run(op, arguments, store);
  const auto gradients = store.gradients_of[0], of_bias = store.gradients_of[1];
  const auto loss = [&] {
    auto copy = arguments;
    return run(op, copy, store);
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto expected = arguments[i].gradient;
    check_slopes("argument " + std::to_string(i), arguments[i].values, expected, loss);
  }
  if (!with_parameters)
    return;
  check_slopes("weight", store.values_of[0], gradients, loss);
  check_slopes("bias", store.values_of[1], of_bias, loss);
}

row_slots slots_on(tape& on) {
  return {uploaded(on.stream(), place, {S}), uploaded(on.stream(), slot, {R, slots})};
}

argument rows(std::int64_t n, std::int64_t width, placement lies = placement::replicated) {
  return {normal<float>(std::size_t(n * width), std::uint32_t(n + width)), {n, width}, lies};
}

}  // namespace

TEST_CASE("gradients of permute and unpermute equal finite differences", "[autograd]") {
  check_all([](tape& on, auto& in) { return permute(on, in[0], slots_on(on)); }, {rows(R, C)});
  check_all([](tape& on, auto& in) { return unpermute(on, in[0], slots_on(on)); }, {rows(S, C)});
  check_all([](tape& on, auto& in) { return unpermute(on, in[0], slots_on(on), in[1]); },
            {rows(S, C), rows(R, slots)});
}

TEST_CASE("unpermute undoes permute, and adds the slots of a row", "[autograd]") {
  expert_store store;
  stream on(kernels::backend::cpu, 1, {});
  tape graph(on, store, {.recording = false});
  graph.begin_segment(0);
  const auto x = rows(R, C);
  const auto there = slots_on(graph);
  const auto y = unpermute(
      graph,
      permute(graph, graph.make(uploaded(on, x.values, x.extents), placement::replicated), there),
      there);
  graph.end_segment();
  const auto back = elements_of<float>(on, y.data);
  for (std::size_t i = 0; i < back.size(); ++i)
    CHECK(back[i] == x.values[i] * (i < std::size_t(C) ? 1 : 2));  // row 0 has one slot
}

TEST_CASE("gradients of a grouped product equal finite differences", "[autograd]") {
  // Two sources of experts 0 and 2, one of them without rows; expert 1 has none.
  const auto groups = std::make_shared<expert_groups>(expert_groups{{0, 3, 4, 4, 6}, {0, 0, 2, 2}});
  const int bias = GENERATE(1, no_parameter);
  const auto op = [&](tape& on, std::vector<variable>& in) {
    return grouped_linear(on, in[0], product::column, groups, E, N, 0, bias);
  };
  check_all(op, {rows(6, C, placement::replicated_partial_gradient)}, bias >= 0);
}

TEST_CASE("gradients of a weighted activation equal finite differences", "[autograd]") {
  const auto kind = GENERATE(from_range(kernels::every_activation));
  const bool gated = GENERATE(false, true);
  const auto op = [&](tape& on, std::vector<variable>& in) {
    return weighted_activation(on, in[0], in[1], kind, gated);
  };
  auto weights = rows(R, 1, placement::replicated_partial_gradient);
  weights.extents = {R};
  check_all(op, {rows(R, C, placement::feature_sharded), weights});
}

TEST_CASE("weights go to their slots in f32, whatever the type of the tape", "[autograd]") {
  bf16_store store;
  stream on(kernels::backend::cpu, 1, {});
  tape graph(on, store, {});
  graph.begin_segment(0);
  auto there = slots_on(graph);
  there.slot = there.slot.view({R * slots, 1});
  const auto weights = rows(R * slots, 1).values;
  const auto x = graph.make(uploaded(on, weights, {R * slots, 1}), placement::replicated);
  const auto y = permute(graph, x, there);
  graph.end_segment();
  const auto of_slots = elements_of<float>(on, y.data);
  for (std::size_t s = 0; s < place.size(); ++s)
    CHECK(of_slots[s] == (place[s] < 0 ? 0 : weights[std::size_t(place[s])]));
  graph.add(*y.gradient, uploaded(on, numbers(S, 1), {S, 1}));
  graph.input_gradients(0);
  const auto back = elements_of<float>(on, x.gradient->sum);
  for (std::size_t i = 0; i < slot.size(); ++i)
    CHECK(back[i] == (slot[i] < 0 ? 0 : 1));
}

TEST_CASE("weights of slots with several users add their gradients in f32", "[autograd]") {
  bf16_store store;
  stream on(kernels::backend::reference, 1, {});
  tape graph(on, store, {});
  tensor sum;
  graph.add(sum, uploaded(on, numbers{1, 2}, {2}));
  graph.add(sum, uploaded(on, numbers{0x1p-20F, 3}, {2}));
  CHECK(elements_of<float>(on, sum) == numbers{1 + 0x1p-20F, 5});
}

TEST_CASE("experts without rows and ranks without tokens have results of 0 and add no gradient",
          "[autograd]") {
  const auto by = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  const std::int64_t tokens = GENERATE(std::int64_t{0}, R);
  const auto groups = GENERATE(expert_groups{{0}, {}}, expert_groups{{0, 0, 0}, {0, 2}});
  expert_store store;
  for (auto& x : store.gradients_of)
    x.assign(x.size(), 7);
  stream on(by, 1, {});
  tape graph(on, store, {});
  graph.begin_segment(0);
  const auto made = [&](shape extents, placement lies) {
    return graph.make(uploaded(on, numbers(std::size_t(extents.size()), 1), extents),
                      {{axis::expert_tensor, lies}});
  };
  const auto none = std::vector<std::int32_t>(std::size_t(tokens * slots), -1);
  const row_slots nowhere{uploaded(on, std::vector<std::int32_t>(), {0}),
                          uploaded(on, none, {tokens, slots})};
  const auto x = made({tokens, C}, placement::replicated_partial_gradient);
  const auto of_slots = made({0}, placement::replicated_partial_gradient);
  const auto there = grouped_linear(graph,
                                    permute(graph, x, nowhere),
                                    product::column,
                                    std::make_shared<const expert_groups>(groups),
                                    E,
                                    N,
                                    0,
                                    1);
  const auto y = unpermute(
      graph, weighted_activation(graph, there, of_slots, kernels::activation::gelu_tanh), nowhere);
  const auto weights = made({tokens, slots}, placement::replicated);
  const auto weighted = unpermute(graph, made({0, N}, placement::replicated), nowhere, weights);
  graph.end_segment();
  const numbers zeros(std::size_t(tokens * N));
  CHECK(elements_of<float>(on, y.data) == zeros);
  CHECK(elements_of<float>(on, weighted.data) == zeros);
  for (const auto& result : {y, weighted})
    graph.add(*result.gradient, uploaded(on, numbers(zeros.size(), 1), {tokens, N}));
  graph.input_gradients(0);
  graph.weight_gradients(0);
  CHECK(elements_of<float>(on, x.gradient->sum) == numbers(std::size_t(tokens * C)));
  CHECK(elements_of<float>(on, weights.gradient->sum) == numbers(std::size_t(tokens * slots)));
  CHECK(of_slots.gradient->sum.size() == 0);
  CHECK(store.gradients_of[0] == numbers(E * N * C, 7));
  CHECK(store.gradients_of[1] == numbers(E * N, 7));
}

TEST_CASE("GROUP-3: slots and weights that do not fit the rows are refused", "[autograd]") {
  expert_store store;
  stream on(kernels::backend::reference, 1, {});
  tape graph(on, store, {.recording = false});
  graph.begin_segment(0);
  const auto made = [&](shape extents, placement lies = placement::replicated) {
    return graph.make(uploaded(on, numbers(std::size_t(extents.size())), extents),
                      {{axis::expert_tensor, lies}});
  };
  const auto there = slots_on(graph);
  const auto activated = [&](std::int64_t weights) {
    weighted_activation(graph,
                        made({R, C}, placement::feature_sharded),
                        made({weights}, placement::replicated_partial_gradient),
                        kernels::activation::gelu_tanh);
  };
  const auto refuses = [](const auto& call) {
    CHECK_THROWS_MATCHES(call(), broken_promise, MessageMatches(StartsWith("GROUP-3")));
  };
  refuses([&] { permute(graph, made({R + 1, C}), there); });
  refuses([&] { unpermute(graph, made({S - 1, C}), there); });
  refuses([&] { unpermute(graph, made({S, C}), there, made({slots, R})); });
  refuses([&] { activated(R - 1); });
  refuses([&] { activated(R + 1); });
  CHECK_NOTHROW(activated(R));
}

TEST_CASE("GROUP-1: groups that leave rows out, or have other experts, are refused", "[autograd]") {
  expert_store store;
  stream on(kernels::backend::reference, 1, {});
  tape graph(on, store, {.recording = false});
  graph.begin_segment(0);
  const auto x = graph.make(uploaded(on, rows(3, C).values, {3, C}),
                            {{axis::expert_tensor, placement::replicated_partial_gradient}});
  const auto asked = [&](expert_groups groups) {
    grouped_linear(graph,
                   x,
                   product::column,
                   std::make_shared<const expert_groups>(std::move(groups)),
                   E,
                   N,
                   0);
  };
  CHECK_NOTHROW(asked({{0, 1, 3}, {0, 2}}));
  for (const auto& wrong : {expert_groups{{0, 1, 2}, {0, 2}},
                            expert_groups{{1, 2, 3}, {0, 2}},
                            expert_groups{{0, 4, 3}, {0, 2}},
                            expert_groups{{0, 3}, {0, 2}},
                            expert_groups{{0, 1, 3}, {0, 3}},
                            expert_groups{{0, 1, 3}, {0, -1}}})
    CHECK_THROWS_MATCHES(asked(wrong), broken_promise, MessageMatches(StartsWith("GROUP-1")));
  CHECK_NOTHROW(asked({{0, 1, 3}, {0, 2}, {5}}));  // not read
}

TEST_CASE("GROUP-1: groups name a source where the weight has several gradients", "[autograd]") {
  const parameter_spec weight{.name = "weight",
                              .extents = {E * 2, N, C},
                              .stacked = true,
                              .placements = of_experts({{axis::expert, row_sharded()}})};
  resident_store store({{"unit", {weight}}},
                       1,
                       {},
                       dtype::f32,
                       {{axis::expert, {0, 2}}},
                       {},
                       gradient_memory::lasting,
                       value_memory::lasting,
                       source_sums::by_source);
  stream on(kernels::backend::reference, 1, {});
  tape graph(on, store, {.recording = false});
  graph.begin_segment(0);
  const auto x = graph.make(uploaded(on, rows(3, C).values, {3, C}),
                            {{axis::expert_tensor, placement::replicated_partial_gradient}});
  const auto asked = [&](const std::vector<std::int32_t>& sources) {
    grouped_linear(graph,
                   x,
                   product::column,
                   std::make_shared<const expert_groups>(expert_groups{{0, 1, 3}, {0, 2}, sources}),
                   E,
                   N,
                   0);
  };
  CHECK_NOTHROW(asked({1, 0}));
  for (const auto& wrong : std::vector<std::vector<std::int32_t>>{{}, {0}, {0, 2}, {0, -1}})
    CHECK_THROWS_MATCHES(asked(wrong), broken_promise, MessageMatches(StartsWith("GROUP-1")));
}

TEST_CASE("SUMS-1: W of a grouped product adds the groups of each source to its own gradient",
          "[autograd]") {
  const auto backend = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  // Two expert tensor ranks with two sources each; all groups of one run have one source.
  const std::vector<std::int64_t> sizes{1, 0, 2, 1, 1, 0, 2, 1, 0, 0, 2, 2};
  const auto source_of = [](std::size_t group) { return std::int32_t(group / std::size_t(E) % 2); };
  stream on(backend, 1, {});
  /// The gradients of the groups for which is(group) is true.
  const auto gradients = [&](int sources, const std::function<bool(std::size_t)>& is) {
    parameter_spec weight{.name = "weight",
                          .extents = {E * sources, N, C},
                          .stacked = true,
                          .placements = of_experts({{axis::expert, row_sharded()}})};
    auto bias = weight;
    bias.name = "bias";
    bias.extents = {E * sources, N};
    resident_store store({{"unit", {weight, bias}}},
                         1,
                         {},
                         dtype::f32,
                         {{axis::expert, {0, sources}}},
                         {},
                         gradient_memory::lasting,
                         value_memory::lasting,
                         source_sums::by_source);
    expert_groups groups{{0}, {}, {}};
    numbers x, dy;
    std::uint32_t seed = 1;
    for (std::size_t g = 0; g < sizes.size(); ++g) {
      const auto rows = normal<float>(sizes[g] * C, seed++),
                 slopes = normal<float>(sizes[g] * N, seed++);
      if (!is(g))
        continue;
      groups.offsets.push_back(groups.offsets.back() + sizes[g]);
      groups.experts.push_back(std::int32_t(g) % std::int32_t(E));
      groups.sources.push_back(source_of(g));
      x.insert(x.end(), rows.begin(), rows.end());
      dy.insert(dy.end(), slopes.begin(), slopes.end());
    }
    const auto together = groups.offsets.back();
    tape graph(on, store, {});
    store.zero_gradients();
    graph.begin_segment(0);
    const auto y = grouped_linear(
        graph,
        graph.make(uploaded(on, x, {together, C}),
                   {{axis::expert_tensor, placement::replicated_partial_gradient}}),
        product::column,
        std::make_shared<const expert_groups>(std::move(groups)),
        E,
        N,
        0,
        1);
    graph.end_segment();
    graph.add(*y.gradient, uploaded(on, dy, {together, N}));
    graph.input_gradients(0);
    graph.weight_gradients(0);
    std::vector<numbers> out;
    for (int s = 0; s < sources; ++s)
      for (const int e : {0, 1}) {
        const float* const from = static_cast<parameter_store&>(store).gradients(s, e);
        out.emplace_back(from, from + store.entries()[std::size_t(e)].size());
      }
    return out;
  };
  const auto both = gradients(2, [](std::size_t) { return true; });
  for (const int s : {0, 1}) {
    const auto own = gradients(1, [&](std::size_t g) { return source_of(g) == s; });
    CHECK(both[std::size_t(2 * s)] == own[0]);
    CHECK(both[std::size_t(2 * s + 1)] == own[1]);
  }
}
