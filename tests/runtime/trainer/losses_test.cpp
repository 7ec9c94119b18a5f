// A model's losses are a named, weighted list: each has its own count, wherever its units are.

#include "tests/support/broken.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/two_streams.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;
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

TEST_CASE("MODEL-6: a loss has one weight, and its name ends in 'loss'", "[trainer]") {
  auto model = gpt_spec(tiny_gpt(1));
  auto& layer = model.part<layer_spec>();
  layer.sublayers.emplace_back(own_sublayer{.name = "own", .losses = {{"lm loss", 2}}});
  CHECK_BREAKS("MODEL-6", losses_of(model));
  layer.sublayers.back() = own_sublayer{.name = "own", .losses = {{"penalty"}}};
  CHECK_BREAKS("MODEL-6", losses_of(model));
}

TEST_CASE("the loss of a middle stage has the bits and the count of the whole model", "[trainer]") {
  const int data = GENERATE(1, 2);
  worker_settings settings{.model = two_streams(), .replicas = GENERATE(1, 2), .grain = 16};
  CAPTURE(data, settings.replicas);
  const auto judge = steps({.data = data}, settings, {{0, units}});
  const auto& losses = judge.front().losses;
  REQUIRE(losses.size() == std::size_t(2 * data * settings.replicas));
  const auto sequence = settings.model.sequence();
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
  const auto model = two_streams();
  stages one(model, {{0, units}}, by);
  auto doubled = model;
  doubled.part<head_spec>().reported.weight = 2;
  stages two(doubled, {{0, units}}, by);
  const auto in = tiny_batch(by, model, 2, 1, true);
  CHECK(one.forward_backward(0, in).total == two.forward_backward(0, in).total);
  CHECK(one.gradients().at("output_layer.weight") != two.gradients().at("output_layer.weight"));
  CHECK(one.gradients().at("again.echo") == two.gradients().at("again.echo"));
}

TEST_CASE("WORKER-15: a pass writes losses that its model names", "[trainer]") {
  stream by(kernels::backend::cpu, 1, {});
  auto model = two_streams();
  auto& again = model.units.at(4).module;
  again = own_sublayer{.name = "again", .build = [](module_builder& to) {
                         to.segment("", [](tape& on, pass& p) {
                           p.add_loss("secret loss", loss_sums(on.stream(), {1, 1}));
                         });
                       }};
  worker one({.model = model, .chunks = {{chunk_id(0), all_of(model)}}}, by);
  one.begin_step({.step = step_id(1)});
  one.forward({}, tiny_batch(by, model, 2, 1, true));
  CHECK_BREAKS("WORKER-15", one.losses());
}
