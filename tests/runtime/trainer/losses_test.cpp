// A model's losses are a named, weighted list: each has its own count, wherever its units are.

#include "runtime/trainer/verification.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/two_streams.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <functional>
#include <memory>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;
namespace kernels = troupe::kernels;

namespace {

constexpr std::int64_t units = 7, micro_batches = 2;

/// Two steps. The second one shows the gradients of the first.
std::vector<group_step_result> steps(const grid& g,
                                     const worker_settings& settings,
                                     std::vector<chunk_range> stages) {
  ranks all(g, settings, kernels::backend::cpu, std::move(stages));
  return {all.step(1, micro_batches), all.step(2, micro_batches)};
}

void check_equal(const std::vector<group_step_result>& a, const std::vector<group_step_result>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t s = 0; s < a.size(); ++s) {
    REQUIRE(a[s].losses.size() == b[s].losses.size());
    for (std::size_t i = 0; i < a[s].losses.size(); ++i) {
      const auto &x = a[s].losses[i], &y = b[s].losses[i];
      CHECK(x.order() == y.order());
      CHECK(x.total == y.total);
      CHECK(x.tokens == y.tokens);
    }
    CHECK(a[s].digests == b[s].digests);
  }
}

/// A segment that adds a loss of one row.
auto adds(const std::string& name, placement lies = placement::replicated, double total = 1) {
  return [=](tape& on, pass& p) {
    axis_map<placement> rows;
    rows[axis::tensor] = lies;
    p.add_loss(name, rows, loss_sums(on.stream(), {total, 1}));
  };
}

/// The model of two_streams with this segment in place of `again`.
model_spec with_segment(const std::function<void(tape&, pass&)>& run,
                        const std::vector<loss_spec>& losses) {
  auto model = two_streams();
  model.units.at(4).module
      = own_sublayer{.name = "again",
                     .build = [run](module_builder& to) { to.segment("", run); },
                     .losses = losses};
  return model;
}

void run(const model_spec& model) {
  stream by(kernels::backend::cpu, 1, {});
  worker one({.model = model, .chunks = {{chunk_id(0), all_of(model)}}}, by);
  one.begin_step({.step = step_id(1)});
  one.forward({}, tiny_batch(by, model, 2, 1, true));
}

}  // namespace

TEST_CASE("the losses of a model are those of its last unit, then the others", "[trainer]") {
  const auto all = losses_of(two_streams());
  REQUIRE(all.size() == 2);
  CHECK(all[0].name == "lm loss");
  CHECK(all[0].weight == 1);
  CHECK(all[1].name == "echo loss");
  CHECK(all[1].weight == echo_weight);
  CHECK(!is_only_lm_loss(all));
  CHECK(is_only_lm_loss(losses_of(gpt_spec(tiny_gpt(2)))));
}

TEST_CASE("MODEL-6: a loss has one weight, and a name with its own field", "[trainer]") {
  const std::vector<std::vector<loss_spec>> wrong = {
      {{"lm loss", 2}},
      {{"penalty"}},
      {{"loss"}},
      {{"auxloss"}},
      {{"Aux loss"}},
      {{"aux, loss"}},
      {{"aux\nloss"}},
      {{"\"aux\" loss"}},
      {{"aux  loss"}},
      {{" aux loss"}},
      {{"validation loss"}},
      {{"test_loss"}},
      {{"validation_sop loss"}},
      {{"lm_loss"}},
      {{"sum loss"}},
      {{"sum_loss"}},
      {{"sop loss"}, {"sop_loss"}},
      {{"sop loss", NAN}},
      {{"sop loss", -INFINITY}},
  };
  const auto with = [](const std::vector<loss_spec>& losses) {
    auto model = gpt_spec(tiny_gpt(1));
    model.part<layer_spec>().sublayers.emplace_back(own_sublayer{.name = "own", .losses = losses});
    return model;
  };
  for (const auto& losses : wrong) {
    CAPTURE(losses.back().name);
    CHECK_BREAKS("MODEL-6", losses_of(with(losses)));
    const extension own{.name = "own", .feed_forward = [](auto&, const auto&) {}, .losses = losses};
    CHECK_THROWS_MATCHES(
        gpt_spec(tiny_gpt(1), own), input_error, MessageMatches(StartsWith("extension 'own': ")));
  }
  const std::vector<loss_spec> right
      = {{"sop loss", -0.5}, {"load_balancing_loss"}, {"mtp 1 loss"}, {"tests loss"}};
  CHECK(losses_of(with(right)).size() == 1 + right.size());
}

TEST_CASE("MODEL-6: the names that logs and viewers use are taken, also alone", "[trainer]") {
  for (const auto* name : {"lm_loss", "sum loss", "best accuracy"})
    CHECK(wrong_loss({{name}}).find("are taken") != std::string::npos);
  CHECK(wrong_loss({{"lm loss"}}).empty());
}

TEST_CASE("an extension has losses only with a name and a feed-forward layer", "[trainer]") {
  CHECK_THROWS_AS(gpt_spec(tiny_gpt(1), {.losses = {{"sop loss"}}}), input_error);
  CHECK_THROWS_MATCHES(gpt_spec(tiny_gpt(1), {.name = "own", .losses = {{"sop loss"}}}),
                       input_error,
                       MessageMatches(ContainsSubstring("extension::feed_forward")));
}

TEST_CASE("the loss of a middle stage has the bits and the count of the whole model", "[trainer]") {
  const int data = GENERATE(1, 2);
  worker_settings settings{.model = two_streams(), .replicas = GENERATE(1, 2), .grain = 16};
  CAPTURE(data, settings.replicas);
  const auto judge = steps({.data = data}, settings, {{0, units}});
  const auto& losses = judge.front().losses;
  REQUIRE(losses.size() == std::size_t(2 * data * settings.replicas));
  const auto sequence = settings.model.sequence;
  for (const auto& x : losses) {
    CHECK(x.unit == (x.loss == 0 ? 6 : 4));
    if (x.loss == 1)
      CHECK(x.tokens == double(micro_batches * (2 * sequence - 1)));
    else
      CHECK(x.tokens < double(micro_batches * (2 * sequence - 1)));
  }
  check_equal(steps({.pipeline = 2, .data = data}, settings, {{0, 3}, {3, units}}), judge);
  check_equal(steps({.pipeline = 2, .data = data}, settings, {{0, 5}, {5, units}}), judge);
  check_equal(steps({.pipeline = 3, .data = data}, settings, {{0, 2}, {2, 5}, {5, units}}), judge);
  // As many replicas, but each on a rank of its own or all on one.
  if (data == 2 && settings.replicas == 1) {
    settings.replicas = 2;
    check_equal(steps({}, settings, {{0, units}}), judge);
  }
}

TEST_CASE("the weight of a loss is the factor of its gradient", "[trainer]") {
  stream by(kernels::backend::cpu, 1, {});
  const pass_settings settings{.loss_scale = GENERATE(1.0, 1024.0),
                               .per_token_loss = GENERATE(false, true)};
  CAPTURE(settings.loss_scale, settings.per_token_loss);
  const auto in = tiny_batch(by, two_streams(), 2, 1, true);
  double total = 0;
  const auto gradients = [&](double weight) {
    auto model = two_streams();
    model.part<head_spec>().reported.weight = weight;
    stages all(model, {{0, units}}, by);
    total = all.forward_backward(0, in, settings).total;
    return all.gradients();
  };
  const auto one = gradients(1);
  const double reported = total;
  for (const double weight : {2.0, -1.0, 0.0}) {  // exact factors
    CAPTURE(weight);
    const auto found = gradients(weight);
    CHECK(total == reported);
    auto expected = one.at("output_layer.weight");
    for (auto& x : expected)
      x *= float(weight);
    CHECK(found.at("output_layer.weight") == expected);
    CHECK(found.at("again.echo") == one.at("again.echo"));
  }
}

TEST_CASE("WORKER-15: a pass writes the losses that its units name", "[trainer]") {
  const auto unused = [](tape&, pass&) {};
  for (const auto& model : {with_segment(adds("secret loss"), {}),
                            with_segment(unused, {{"echo loss"}}),
                            with_segment(adds("echo loss"), {{"echo loss"}, {"sop loss"}})})
    CHECK_BREAKS("WORKER-15", run(model));
  run(with_segment(adds("echo loss"), {{"echo loss"}}));
}

TEST_CASE("WORKER-16: with a loss over replicas each has workers of its own", "[trainer]") {
  const auto model
      = with_segment(adds("echo loss"), {{.name = "echo loss", .over_replicas = true}});
  local_communicator two(std::make_shared<local_group>(axis::data, 2, cancel_token()), 0);
  const auto make = [&](int replicas, bool verifies, const worker_groups& groups) {
    stream by(kernels::backend::cpu, 1, {});
    worker({.model = model,
            .chunks = {{chunk_id(0), all_of(model)}},
            .replicas = replicas,
            .verifies = verifies},
           by,
           groups);
  };
  CHECK_NOTHROW(make(1, false, {}));
  CHECK_NOTHROW(make(
      1, false, {.along = {{axis::data, &two}}, .replicas = &two, .extents = {{axis::data, 2}}}));
  CHECK_BREAKS("WORKER-16", make(2, false, {}));
  CHECK_BREAKS("WORKER-16", make(1, true, {}));
  CHECK_BREAKS("WORKER-16",
               make(1, false, {.along = {{axis::data, &two}}, .extents = {{axis::data, 2}}}));
}

TEST_CASE("MODEL-7: a segment writes a loss once", "[trainer]") {
  const auto twice = [](tape& on, pass& p) {
    adds("echo loss")(on, p);
    adds("echo loss")(on, p);
  };
  CHECK_BREAKS("MODEL-7", run(with_segment(twice, {{"echo loss"}})));
}

TEST_CASE("MODEL-8: a loss is a sum over the rows of all ranks", "[trainer]") {
  for (const auto lies : {placement::sequence_sharded, placement::partial})
    CHECK_BREAKS("MODEL-8", run(with_segment(adds("echo loss", lies), {{"echo loss"}})));
  run(with_segment(adds("echo loss", placement::feature_sharded), {{"echo loss"}}));
}

TEST_CASE("VERIFY-2: the digest of a pass covers its losses, also beside streams", "[trainer]") {
  const bool differs = GENERATE(false, true);
  stream by(kernels::backend::cpu, 1, {});
  const auto of = [&by](double total) {
    auto model = with_segment(adds("echo loss", placement::replicated, total), {{"echo loss"}});
    auto out = std::make_unique<worker>(
        worker_settings{
            .model = std::move(model), .chunks = {{chunk_id(0), {0, 5}}}, .verifies = true},
        by);
    out->begin_step({.step = step_id(1)});
    return out;
  };
  const auto one = of(1), other = of(differs ? 2 : 1);
  const auto in = tiny_batch(by, two_streams(), 2, 1, true);
  const auto out = one->forward({}, in);
  const auto told = one->output_digest({}, out);
  const auto gradient = one->copy_of(out);
  added_gradients added;
  one->input_gradients({}, gradient, 0);
  one->weight_gradients({}, 0, added);
  const auto again = other->compute_again(chunk_id(0), in, gradient, added);
  CHECK((again.output != told) == differs);
  CHECK(again.weight_gradient == added.after);
}

TEST_CASE("MODEL-9: a pass that only wants logits writes no loss", "[trainer]") {
  stream by(kernels::backend::cpu, 1, {});
  const auto model = two_streams();
  const chunk all(model, all_of(model));
  const recompute_plan plan(all, {});
  resident_store store(all.units(), 1, {});
  initialise(store, 1);
  bundle in;
  for (const auto& [name, x] : tiny_batch(by, model, 2, 1))
    if (name != "labels" && name != "mask")
      in.add(name, x);
  chunk_pass x(all, plan, by, store, {.training = false, .losses = false});
  CHECK(x.forward(in).has("logits"));
  CHECK(x.losses().empty());
  CHECK_BREAKS("MODEL-9", x.loss());
}
