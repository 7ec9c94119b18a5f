// The reference trainer on axes of experts: ranks with experts add the rows of all ranks that share
// them, in the same replica or in other ones.

#include "runtime/core/error.hpp"
#include "tests/support/formula_source.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::int64_t E = 4, N = 4, K = 2;

/// What the rows of this rank send to each expert. A tensor rank has every TP-th position of its
/// sequences.
std::vector<float> sent(const tape& tape, const pass& p, float unit) {
  std::vector<float> out(E);
  const auto* const samples = p.rows.samples.data<std::uint64_t>();
  const auto B = p.rows.samples.size();
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t t = tape.rank(); t < p.rows.T(); t += tape.group_size())
      out[(samples[b] + std::uint64_t(t)) % E] += unit * float(samples[b] % 7 + 1);
  return out;
}

/// What each rank along the expert axis sends, and the sum of its expert tensor ranks: (EP, E).
std::vector<float> received(tape& tape, const std::vector<float>& own) {
  const auto gathered = [&](axis along, const std::vector<float>& mine) {
    const int ranks = tape.group_size(along);
    if (ranks == 1)
      return mine;
    std::vector<float> all(mine.size() * std::size_t(ranks));
    tape.group(along).all_gather(tape.stream(),
                                 mine.data(),
                                 all.data(),
                                 equal_ends(std::int64_t(all.size() * sizeof(float)), ranks));
    return all;
  };
  const auto by_source = gathered(axis::expert, own);
  const auto all = gathered(axis::expert_tensor, by_source);
  std::vector<float> out(by_source.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    out[i % out.size()] += all[i];
  return out;
}

/// Adds what an expert got, times the number of the element in its whole matrix, to the gradient of
/// the source.
struct adds_received final : node {
  int parameter;
  std::vector<float> got;  ///< (EP, E)

  adds_received(int which, std::vector<float> all) : parameter(which), got(std::move(all)) {}
  void input_gradients(tape&) override {}
  void weight_gradients(tape& tape) override {
    const auto count = E / tape.group_size(axis::expert),
               each = N * K / tape.group_size(axis::expert_tensor);
    for (int s = 0; s < tape.group_size(axis::expert); ++s) {
      const auto* const from = got.data() + s * E + tape.rank(axis::expert) * count;
      const auto place = tape.place_of_gradient(parameter, tape.sources(parameter) == 1 ? 0 : s);
      tape.stream().run([&] {
        for (std::int64_t i = 0; i < count * each; ++i) {
          const auto element = tape.rank(axis::expert_tensor) * each + i % each + 1;
          const float x = from[i / each] * float(element);
          place.to[i] = place.accumulates ? place.to[i] + x : x;
        }
      });
    }
  }
};

/// Whole numbers have exact sums in any order; the order of sums of tenths shows in their bits.
constexpr float whole_numbers = 1, tenths = 0.1F;

/// A block with a stack of experts. `exchanges` sees each tape before the exchange.
extension experts(float unit, const std::function<void(const tape&)>& exchanges = {}) {
  return {
      .name = "experts",
      .feed_forward = [unit, exchanges](module_builder& to, const feed_forward_spec&) {
        const int stack
            = to.add({.name = "experts",
                      .extents = {E, N, K},
                      .initial = distribution::normal(0.1),
                      .stacked = true,
                      .placements = of_experts({{axis::expert, row_sharded()},
                                                {axis::expert_tensor, {.dimension = 1}}})});
        to.segment("exchange", [=](tape& tape, pass& p) {
          if (exchanges)
            exchanges(tape);
          tape.record(std::make_unique<adds_received>(stack, received(tape, sent(tape, p, unit))));
        });
      }};
}

recipe with_experts(const extension& own) {
  recipe out;
  auto model = tiny_gpt(2);
  model.padded_vocabulary = 32;
  out.model = model;
  out.own = own;
  out.rate = {.maximum = 1e-2, .minimum = 1e-3, .warmup = 8, .decay = 200};
  out.batch = {.micro = 2, .global = 16, .data_parallel = 4};
  return out;
}

/// Three steps and an evaluation.
struct outcome {
  std::vector<digest> states;
  std::vector<double> numbers;                        ///< losses and norms
  std::map<std::string, std::vector<float>> weights;  ///< whole parameters of all ranks
  std::vector<std::int64_t> held;                     ///< elements of stacks, by rank
};

outcome outcome_of(const reference_layout& layout, float unit) {
  const auto what = with_experts(experts(unit));
  const auto source = std::make_shared<formula_source>(what, true);
  stream stream(kernels::backend::cpu, 1, memory_pool());
  reference_trainer by(what, source, stream, layout);
  outcome out;
  for (int i = 0; i < 3; ++i) {
    const auto step = by.step();
    out.states.push_back(step.state);
    out.numbers.push_back(step.loss);
    out.numbers.push_back(step.grad_norm);
  }
  out.numbers.push_back(by.evaluate(*source, 1).loss);
  by.each([&](worker& rank) {
    auto& held = out.held.emplace_back();
    for (const auto& x : rank.parameters()) {
      auto& all = out.weights[x.name];
      all.resize(std::size_t(x.whole.size()));
      copy_common(x.part, x.elements.data(), whole(x.whole), all.data(), sizeof(float));
      if (x.name.ends_with("mlp.experts"))
        held += x.part.size();
    }
  });
  return out;
}

}  // namespace

TEST_CASE("STACK-1: the reference trainer has one state on all axes of experts",
          "[trainer][axes][invariant]") {
  const int tensor = GENERATE(1, 2);
  const auto one = outcome_of({.tensor = tensor}, whole_numbers);
  std::map<int, std::vector<digest>> states;  // by expert tensor ranks: keys of shards differ
  for (const int data : {1, 2, 4})
    for (const int expert : {1, 2, 4})
      for (const int expert_tensor : {1, 2, 4}) {
        if (tensor * data % (expert * expert_tensor) != 0)
          continue;
        CAPTURE(tensor, data, expert, expert_tensor);
        const auto found = outcome_of(
            {.tensor = tensor, .data = data, .expert = expert, .expert_tensor = expert_tensor},
            whole_numbers);
        CHECK(found.numbers == one.numbers);
        CHECK(found.weights == one.weights);
        CHECK(found.states == states.emplace(expert_tensor, found.states).first->second);
        const auto each = 2 * E * N * K / (expert * expert_tensor);  // of two layers
        CHECK(found.held == std::vector<std::int64_t>(std::size_t(tensor * data), each));
      }
  CHECK(states.at(1) == one.states);
}

TEST_CASE("SUMS-1: by source, expert ranks in other replicas have the bits of replicas in turn",
          "[trainer][axes][invariant]") {
  const auto one = outcome_of({}, tenths);
  for (const int data : {1, 2, 4})
    for (int expert = 1; expert <= data; expert *= 2) {
      CAPTURE(data, expert);
      const auto found = outcome_of({.data = data, .expert = expert}, tenths);
      CHECK(found.numbers == one.numbers);
      CHECK(found.weights == one.weights);
      CHECK(found.states == one.states);
    }
  const reference_layout together{.data = 4, .expert = 4, .expert_sums = source_sums::together};
  const auto found = outcome_of(together, tenths);
  CHECK(found.numbers != one.numbers);
  CHECK(found.states == outcome_of(together, tenths).states);
}

TEST_CASE("together, data ranks have the bits of replicas in turn if each replica has all experts",
          "[trainer][axes]") {
  const int expert = GENERATE(1, 2);
  reference_layout layout{.tensor = 2,
                          .expert = expert,
                          .expert_tensor = 2 / expert,
                          .expert_sums = source_sums::together};
  const auto in_turn = outcome_of(layout, tenths);
  for (const int data : {2, 4}) {
    CAPTURE(expert, data);
    layout.data = data;
    const auto found = outcome_of(layout, tenths);
    CHECK(found.numbers == in_turn.numbers);
    CHECK(found.states == in_turn.states);
  }
}

TEST_CASE("a rank that fails in a pass ends the exchange of the others", "[trainer][axes]") {
  const auto what = with_experts(experts(tenths, [](const tape& tape) {
    if (tape.rank(axis::expert) == 2)
      throw input_error("planted");
  }));
  stream stream(kernels::backend::cpu, 1, memory_pool());
  reference_trainer by(what,
                       std::make_shared<formula_source>(what, true),
                       stream,
                       reference_layout{.data = 4, .expert = 4});
  CHECK_THROWS_WITH(by.step(), ContainsSubstring("planted"));
}

TEST_CASE("ranks of experts that do not fit the others are refused", "[trainer][axes]") {
  const auto what = with_experts(experts(tenths));
  stream stream(kernels::backend::cpu, 1, memory_pool());
  CHECK_THROWS_AS(reference_trainer(what,
                                    std::make_shared<formula_source>(what, true),
                                    stream,
                                    reference_layout{.data = 4, .expert = 3}),
                  input_error);
}
