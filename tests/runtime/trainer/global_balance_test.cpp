// The global balance loss in whole steps of the reference trainer.

#include "runtime/core/error.hpp"
#include "tests/support/formula_source.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

recipe balanced(const char* by, int replicas, int microbatches, double weight = 0.5) {
  recipe out;
  auto model = tiny_gpt(2);
  model.padded_vocabulary = 32;
  model.linear_bias = false;
  model.experts = {.number = 4, .ffn = 12, .balance = {by}, .balance_weights = {weight}};
  out.model = model;
  out.optimizer.epsilon = 1e-4;  // else tiny gradients move weights by their signs alone
  out.rate = {.maximum = 1e-2, .minimum = 1e-3, .warmup = 8, .decay = 200};
  out.batch = {.micro = 2, .global = 2 * replicas * microbatches, .data_parallel = replicas};
  return out;
}

struct trained {
  std::vector<digest> states;
  std::vector<step_report> steps;
  step_losses evaluated;
};

/// All replicas get the samples of the first one.
class equal_samples final : public batch_source {
 public:
  explicit equal_samples(const recipe& recipe) : of_(recipe, true) {}
  bundle microbatch(const microbatch_address& at) const override {
    auto first = at;
    first.replica = 0;
    return of_.microbatch(first);
  }

 private:
  formula_source of_;
};

trained train(const recipe& what,
              const reference_layout& layout = {},
              std::shared_ptr<const batch_source> source = {}) {
  if (!source)
    source = std::make_shared<formula_source>(what, true);
  stream on(kernels::backend::cpu, 1, {});
  reference_trainer by(what, source, on, layout);
  trained out;
  for (int i = 0; i < 3; ++i) {
    out.steps.push_back(by.step());
    out.states.push_back(out.steps.back().state);
  }
  out.evaluated = by.evaluate(*source, 1);
  return out;
}

}  // namespace

TEST_CASE("in one replica's first micro-batch a global balance is that of the micro-batch",
          "[trainer]") {
  const auto global = train(balanced("global_aux_loss", 1, 1)),
             own = train(balanced("aux_loss", 1, 1));
  CHECK(global.states == own.states);
  CHECK(global.evaluated.loss == own.evaluated.loss);
  CHECK(train(balanced("global_aux_loss", 1, 3)).states
        != train(balanced("aux_loss", 1, 3)).states);
}

TEST_CASE("expert ranks change no bit of a global balance, and tensor ranks only round it",
          "[trainer]") {
  const auto what = balanced("global_aux_loss", 2, 3);
  const auto expected = train(what, {.data = 2});
  CHECK(train(what, {.data = 2}).states == expected.states);
  CHECK(train(what, {.data = 2, .expert = 2}).states == expected.states);
  for (const int expert : {1, 2, 4}) {
    CAPTURE(expert);
    const auto found = train(what,
                             {.tensor = 2,
                              .data = 2,
                              .expert = expert,
                              .expert_tensor = expert == 4 ? 1 : 2,
                              .sequence_parallel = true});
    for (std::size_t i = 0; i < found.steps.size(); ++i) {
      CAPTURE(i);
      CHECK(std::abs(found.steps[i].loss - expected.steps[i].loss) < 1e-4);
    }
  }
}

TEST_CASE("a global balance has the gradient of its mean part, as in Megatron-LM", "[trainer]") {
  // With equal samples the shares of all replicas are those of each.
  const auto of = [](const char* by, double weight) {
    const auto what = balanced(by, 2, 1, weight);
    return train(what, {.data = 2}, std::make_shared<equal_samples>(what)).states;
  };
  CHECK(of("global_aux_loss", 0.5) == of("aux_loss", 0.25));
}

TEST_CASE("the objective has a global balance with its weight by the replicas", "[trainer]") {
  for (const auto* const by : {"aux_loss", "global_aux_loss"}) {
    CAPTURE(by);
    const bool global = std::string(by) == "global_aux_loss";
    const auto found = train(balanced(by, 2, 3), {.data = 2});
    const auto name = std::string(global ? "global_" : "") + "load_balancing_loss";
    const double weight = 0.5 * 2 / (global ? 2 : 1);  // of two layers
    for (const auto& step : found.steps) {
      const double loss
          = mean_of(step.losses, "lm loss").value() + weight * mean_of(step.losses, name).value();
      CHECK(std::abs(step.loss - loss) < 1e-12);
    }
    CHECK(std::abs(found.evaluated.loss - mean_of(found.evaluated.by_name, "lm loss").value()
                   - weight * mean_of(found.evaluated.by_name, name).value())
          < 1e-12);
  }
}

TEST_CASE("an evaluation counts each micro-batch apart", "[trainer]") {
  // Six micro-batches in one round, or in three of two.
  const auto of = [](int each, int rounds) {
    const auto what = balanced("global_aux_loss", 1, each);
    stream on(kernels::backend::cpu, 1, {});
    const auto source = std::make_shared<formula_source>(what, true);
    reference_trainer by(what, source, on);
    return mean_of(by.evaluate(*source, rounds).by_name, "global_load_balancing_loss").value();
  };
  CHECK(std::abs(of(6, 1) - of(2, 3)) < 1e-12);
}

TEST_CASE("an abandoned step leaves no counts", "[trainer]") {
  const auto what = balanced("global_aux_loss", 1, 3);
  const auto source = std::make_shared<formula_source>(what, true);
  stream on(kernels::backend::cpu, 1, {});
  reference_trainer by(what, source, on);
  by.state().begin_step({.step = step_id(1), .microbatches = 3});
  by.state().forward({0, chunk_id(0), microbatch_id(0)}, source->microbatch({0, 2, 0}));
  CHECK(by.step().state == train(what).states.front());
}

TEST_CASE("replicas in turn cannot have a global balance", "[trainer]") {
  CHECK_THROWS_AS(train(balanced("global_aux_loss", 2, 1)), input_error);
  CHECK_NOTHROW(train(balanced("aux_loss", 2, 1)));
}
