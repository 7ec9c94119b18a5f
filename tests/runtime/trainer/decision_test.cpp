#include "runtime/trainer/decision.hpp"

#include "runtime/family/gpt/gpt_config.hpp"
#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

recipe simple() {
  recipe out;
  out.rate = {.maximum = 1, .minimum = 0, .decay = 100, .style = decay_style::linear};
  out.batch = {.micro = 1, .global = 10, .data_parallel = 2};
  return out;
}

step_verdict decide(const recipe& recipe, const training_position& at, const step_result& result) {
  return decide(recipe, losses_of(spec_of(recipe)), at, result);
}

step_result finite() {
  return {.losses = {{6, 2}, {2, 2, 1}}, .norms = {{"a", exact_sum(9)}, {"b", exact_sum(16)}}};
}

/// A second loss of weight 0.5, in each of two layers.
recipe with_two_losses() {
  auto out = simple();
  out.own = {.name = "own",
             .feed_forward = [](module_builder&, const feed_forward_spec&) {},
             .losses = {{"load_balancing_loss", 0.5}}};
  out.model.as<gpt_config>().layers = 2;
  return out;
}

step_result finite_of_two() {
  auto out = finite();
  for (const std::int64_t unit : {1, 2})
    out.losses.push_back({3, 6, 1, 1, unit});
  return out;
}

step_result not_finite() {
  auto out = finite();
  out.norms["b"] += NAN;
  out.nonfinite_parameter = "b";
  out.nonfinite_where = "1.0";
  return out;
}

}  // namespace

TEST_CASE("the decision on a finite step depends on its norm and position", "[decision]") {
  const auto x = decide(simple(), {.iteration = 3, .consumed = 30}, finite());
  CHECK(x.fault.empty());
  CHECK_FALSE(x.stops);
  CHECK(x.loss == 2);
  CHECK(x.grad_norm == 5);
  CHECK(x.update.step == 4);
  CHECK(x.update.learning_rate == 0.7);
  CHECK(x.update.gradient_scale == 1.0 / (5 + 1e-6));
  CHECK(x.skipped == skipped_steps{});
}

TEST_CASE("a loss per token divides gradients by the step's token count before clipping",
          "[decision]") {
  auto recipe = simple();
  recipe.per_token_loss = true;
  recipe.model.as<gpt_config>().sequence = 2;  // 20 rows per step, 4 of which count
  const auto x = decide(recipe, {.iteration = 3, .consumed = 30}, finite());
  CHECK(x.loss == 2);
  CHECK(x.grad_norm == 25);
  CHECK(x.update.gradient_scale == 1.0 / (25 + 1e-6) * 5);
  recipe.optimizer.clip = 0;
  CHECK(decide(recipe, {.iteration = 3, .consumed = 30}, finite()).update.gradient_scale == 5);
  auto empty = finite();
  empty.losses = {{0, 0}, {0, 0, 1}};
  const auto none = decide(recipe, {.iteration = 3, .consumed = 30}, empty);
  CHECK(std::isnan(none.loss));  // a mean over nothing is not a perfect loss
  CHECK(none.fault.empty());
  CHECK(none.grad_norm == 5);
  CHECK(none.update.gradient_scale == 1);
}

TEST_CASE("the loss of a step is the weighted sum of its losses that count", "[decision]") {
  auto recipe = with_two_losses();
  auto result = finite_of_two();
  CHECK(loss_names(recipe) == std::vector<std::string>{"lm loss", "load_balancing_loss"});
  const auto x = decide(recipe, {}, result);
  CHECK(x.loss == 2 + 0.5 * 0.5);
  CHECK(x.losses == std::vector<named_loss>{{"lm loss", 2}, {"load_balancing_loss", 0.5}});
  result.losses.back().total = INFINITY;
  CHECK_THAT(decide(recipe, {}, result).fault,
             ContainsSubstring("the load_balancing_loss of replica 1 in unit 2 is inf"));
  result.losses.resize(2);  // no token of the second counts
  const auto one = decide(recipe, {}, result);
  CHECK(one.loss == 2);
  CHECK(std::isnan(one.losses.back().mean));
  result.losses.clear();
  CHECK(std::isnan(decide(recipe, {}, result).loss));
}

TEST_CASE("a step in which no token counts for the first loss has no sum", "[decision]") {
  auto result = finite_of_two();
  for (auto& part : result.losses)
    if (part.loss == 0)
      part = {.number = part.number};
  const auto x = decide(with_two_losses(), {}, result);
  CHECK(std::isnan(x.loss));
  CHECK(x.fault.empty());
  CHECK(std::isnan(x.losses.front().mean));
  CHECK(x.losses.back().mean == 0.5);
}

TEST_CASE("a loss per token divides all gradients by the tokens of the first loss", "[decision]") {
  auto recipe = with_two_losses();
  recipe.per_token_loss = true;
  recipe.model.as<gpt_config>().sequence
      = 2;  // 20 rows per step; 4 count for the first loss, 12 for the second
  recipe.optimizer.clip = 0;
  auto result = finite_of_two();
  CHECK(decide(recipe, {}, result).update.gradient_scale == 5);
  for (auto& part : result.losses)
    if (part.loss == 0)
      part = {.number = part.number};
  CHECK(decide(recipe, {}, result).update.gradient_scale == 1);  // though the second one counts
}

TEST_CASE("a second loss that is not finite counts as a step with NaN", "[decision]") {
  auto recipe = with_two_losses();
  recipe.skippable_in_a_row = 1;
  auto result = finite_of_two();
  result.losses[2].total = NAN;
  const auto x = decide(recipe, {}, result);
  CHECK(x.skips());
  CHECK(x.skipped.nan == 1);
  CHECK_THAT(x.fault, ContainsSubstring("the load_balancing_loss of replica 1 in unit 1 is nan"));
}

TEST_CASE("STEP-10: a vote has the losses of its model in order, each once", "[decision]") {
  const auto recipe = with_two_losses();
  const auto with = [](auto change) {
    auto out = finite_of_two();
    change(out.losses);
    return out;
  };
  using parts = std::vector<loss_part>;
  for (const auto& wrong : {with([](parts& x) { std::swap(x[0], x[1]); }),
                            with([](parts& x) { std::swap(x[2], x[3]); }),
                            with([](parts& x) { x.push_back(x.back()); }),
                            with([](parts& x) { x.back().loss = 2; }),
                            with([](parts& x) { x.front().loss = -1; })})
    CHECK_BREAKS("STEP-10", decide(recipe, {}, wrong));
}

TEST_CASE("a step that is not finite ends the run with its cause, rank and step", "[decision]") {
  const training_position at{.iteration = 2, .consumed = 20};
  const auto x = decide(simple(), at, not_finite());
  CHECK(x.stops);
  CHECK_FALSE(x.skips());
  const auto text = diagnosis(x, at);
  for (const auto* part : {"iteration 3: the gradient of b on stage 1.0 is not finite",
                           "state is that of iteration 2",
                           "`rate.maximum`",
                           "`nonfinite` skip"})
    CHECK_THAT(text, ContainsSubstring(part));
}

TEST_CASE("a loss that is not finite is reported with its replica", "[decision]") {
  auto result = finite();
  result.losses[1].total = NAN;
  const auto x = decide(simple(), {}, result);
  CHECK(x.stops);
  CHECK_THAT(x.fault, ContainsSubstring("the loss of replica 1 is nan"));
  result.nonfinite_parameter = "a";
  CHECK_THAT(decide(simple(), {}, result).fault,
             ContainsSubstring("replica 1 is nan, and the gradient of a is not finite"));
  // All parts are finite, but their sum is not.
  auto large = finite();
  for (int i = 0; i < 4; ++i)
    large.norms["c" + std::to_string(i)] += std::ldexp(1, 189);
  CHECK_THAT(decide(simple(), {}, large).fault, ContainsSubstring("the norm of all gradients"));
}

TEST_CASE("a skipped step advances data and iterations, but not the learning rate and updates",
          "[decision]") {
  auto recipe = simple();
  recipe.skippable_in_a_row = 2;
  training_position at{.iteration = 5, .consumed = 50};
  const auto skip = decide(recipe, at, not_finite());
  CHECK(skip.skips());
  CHECK(skip.skipped == skipped_steps{.iterations = 1, .samples = 10, .nan = 0, .in_a_row = 1});
  at = {.iteration = 6, .consumed = 60, .skipped = skip.skipped};
  const auto next = decide(recipe, at, finite());
  CHECK(next.update.step == 6);             // the sixth update, in the seventh iteration
  CHECK(next.update.learning_rate == 0.5);  // for 50 samples: without those of the skipped step
  CHECK(next.skipped.iterations == 1);
  CHECK(next.skipped.in_a_row == 0);
}

TEST_CASE("the number of consecutive skipped steps is limited and in the diagnosis", "[decision]") {
  auto recipe = simple();
  recipe.skippable_in_a_row = 2;
  training_position at;
  for (int i = 0; i < 2; ++i) {
    const auto x = decide(recipe, at, not_finite());
    CHECK(x.skips());
    at = {.iteration = at.iteration + 1, .consumed = at.consumed + 10, .skipped = x.skipped};
  }
  const auto last = decide(recipe, at, not_finite());
  CHECK(last.stops);
  CHECK_THAT(diagnosis(last, at),
             ContainsSubstring("the 2 steps before it") && ContainsSubstring("skippable_in_a_row"));
  at.skipped.in_a_row = 0;  // an update in between
  CHECK(decide(recipe, at, not_finite()).skips());
}

TEST_CASE("in fp16, norms, clipping and update use unscaled gradients", "[decision]") {
  auto recipe = simple();
  recipe.precision = dtype::f16;
  recipe.scaling = {.initial = 64, .window = 2};
  auto at = beginning(recipe);
  CHECK(at.scale.value == 64);
  auto scaled = finite();
  for (auto& [name, square] : scaled.norms)
    square = exact_sum(square.value() * 64 * 64);
  const auto x = decide(recipe, at, scaled);
  CHECK(x.grad_norm == 5);
  CHECK(x.update.gradient_scale == 1.0 / (5 + 1e-6) / 64);
  CHECK(x.scale.value == 64);
  at.scale = x.scale;
  CHECK(decide(recipe, at, scaled).scale.value == 128);
}

TEST_CASE("in fp16 any number of bad steps is skipped, and each lowers the loss scale",
          "[decision]") {
  auto recipe = simple();
  recipe.precision = dtype::f16;
  recipe.scaling = {.initial = 8, .hysteresis = 1};
  auto at = beginning(recipe);
  for (const double after : {4.0, 2.0, 1.0}) {
    const auto x = decide(recipe, at, not_finite());
    CHECK(x.skips());
    CHECK(x.overflows);
    CHECK(x.scale.value == after);
    at = {at.iteration + 1, at.consumed + 10, x.skipped, x.scale};
  }
  CHECK(at.skipped.in_a_row == 3);
  SECTION("at its minimum the next ends the run") {
    const auto last = decide(recipe, at, not_finite());
    CHECK(last.stops);
    const auto text = diagnosis(last, at);
    for (const auto* part : {"the gradient of b on stage 1.0 is not finite, though the loss scale "
                             "is down at its minimum, 1 (`scaling.minimum`)",
                             "Try `precision=bf16`",
                             "`nonfinite` skip"})
      CHECK_THAT(text, ContainsSubstring(part));
  }
  SECTION("at its minimum the limit of skipped steps counts from there") {
    recipe.skippable_in_a_row = 2;
    for (int i = 0; i < 2; ++i) {
      const auto x = decide(recipe, at, not_finite());
      CHECK(x.skips());
      CHECK_FALSE(x.overflows);
      at = {at.iteration + 1, at.consumed + 10, x.skipped, x.scale};
    }
    const auto last = decide(recipe, at, not_finite());
    CHECK(last.stops);
    CHECK_THAT(diagnosis(last, at), ContainsSubstring("the 2 steps before it"));
  }
}

TEST_CASE("with a constant loss scale a bad step is treated as in fp32", "[decision]") {
  auto recipe = simple();
  recipe.precision = dtype::f16;
  recipe.scaling.constant = 4096;
  const auto at = beginning(recipe);
  const auto x = decide(recipe, at, not_finite());
  CHECK(x.stops);
  CHECK_THAT(x.fault, ContainsSubstring("with the constant loss scale 4096 (`scaling.constant`)"));
  recipe.skippable_in_a_row = 1;
  CHECK(decide(recipe, at, not_finite()).skips());
  CHECK(decide(recipe, at, not_finite()).scale == at.scale);
}

TEST_CASE("in fp32 and bf16 there is no loss scale", "[decision]") {
  auto recipe = simple();
  for (const auto type : {dtype::f32, dtype::bf16}) {
    recipe.precision = type;
    CHECK_FALSE(beginning(recipe).scale.is_used());
    CHECK(decide(recipe, beginning(recipe), finite()).scale == loss_scale{});
  }
}
