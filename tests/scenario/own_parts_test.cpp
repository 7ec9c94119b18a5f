// Extensions of a user's program: a block, a loss, a learning rate, a viewer.

#include "actors/job/start.hpp"
#include "runtime/forecast/memory_forecast.hpp"
#include "runtime/inference/loaded_model.hpp"
#include "runtime/tensor/moves.hpp"
#include "runtime/tokenizer/description.hpp"
#include "tests/support/kept_scales.hpp"
#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"

#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// max(x, 0)^2 between two products, with a norm before and the residual after.
void squared_sublayer(runtime::module_builder& to, const runtime::feed_forward_spec& in_place_of) {
  using namespace runtime;
  const auto C = in_place_of.hidden, N = in_place_of.ffn,
             ranks = std::int64_t{to.ranks(axis::tensor)};
  const int gain = to.add({.name = "gain", .extents = {C}, .initial = distribution::constant(1)});
  const int up = to.add({.name = "up",
                         .extents = {N, C},
                         .initial = distribution::normal(0.1),
                         .decays = true,
                         .placements = {{axis::tensor, row_sharded()}}});
  const int down = to.add({.name = "down",
                           .extents = {C, N},
                           .initial = distribution::normal(0.1),
                           .decays = true,
                           .placements = {{axis::tensor, column_sharded()}}});
  to.segment("norm", [=](tape& on, pass& p) {
    p.x = norm(on, p.hidden, {kernels::normalization::rms}, gain, no_parameter);
  });
  to.segment("squares", [=](tape& on, pass& p) {
    const auto x = linear(on,
                          copy_to_tensor_region(on, p.x),
                          product::column,
                          N / ranks,
                          up,
                          no_parameter,
                          kernels::epilogue::squared_relu);
    p.x = linear(on, x, product::row, C, down, no_parameter);
  });
  to.segment("residual", [=](tape& on, pass& p) {
    p.hidden = dropout_add(
        on, reduce_from_tensor_region(on, std::exchange(p.x, {})), p.hidden, 0, 0, p.rows);
  });
}

/// The same, and a loss of a layer that reads each row's position from the stream.
void sublayer_with_loss(runtime::module_builder& to,
                        const runtime::feed_forward_spec& in_place_of) {
  using namespace runtime;
  constexpr std::int64_t positions = 64;  // at least the sequence length
  squared_sublayer(to, in_place_of);
  const int place = to.add({.name = "place",
                            .extents = {positions, in_place_of.hidden},
                            .initial = distribution::normal(0.1),
                            .placements = {{axis::tensor, row_sharded()}}});
  const auto own = positions / to.ranks(axis::tensor);
  to.segment("place", [=](tape& on, pass& p) {
    if (!p.settings.losses)
      return;
    const auto x = copy_to_tensor_region(on, p.hidden);
    const auto& target = p.rows.positions;
    const std::vector<float> mask(std::size_t(target.size()), 1);
    p.add_loss("place loss",
               x.placements,
               cross_entropy(on,
                             linear(on, x, product::column, own, place, no_parameter),
                             target,
                             uploaded<float>(on.stream(), mask, target.extents()),
                             positions,
                             p.average(0.25)));
  });
}

/// squared_sublayer, and a loss of the rows that this rank has.
void sublayer_with_own_rows(runtime::module_builder& to,
                            const runtime::feed_forward_spec& in_place_of) {
  squared_sublayer(to, in_place_of);
  to.segment("rows", [](runtime::tape& on, runtime::pass& p) {
    const auto rows = double(p.hidden.data.size());
    p.add_loss("place loss", p.hidden.placements, runtime::loss_sums(on.stream(), {rows, rows}));
  });
}

/// Twice the default loss.
runtime::tensor doubled(runtime::tape& on,
                        runtime::variable logits,
                        const runtime::tensor& targets,
                        const runtime::tensor& mask,
                        std::int64_t vocabulary,
                        runtime::loss_average average) {
  average.scale *= 2;
  const auto once = runtime::loss_of(
      on.stream(),
      runtime::cross_entropy(on, std::move(logits), targets, mask, vocabulary, average));
  return runtime::loss_sums(on.stream(), {2 * once.total, once.tokens});
}

runtime::training_job own_job(int pipeline, int data, int tensor = 1) {
  auto job = tests::tiny_job(pipeline, data, tensor);
  job.training.own = {.name = "squares", .feed_forward = squared_sublayer, .loss = doubled};
  job.training.rate_of
      = {.name = "falling", .at = [](std::int64_t n) { return 3e-3 / (1 + double(n) / 100); }};
  return job;
}

std::vector<runtime::step_report> reports_of(const runtime::training_job& job,
                                             std::vector<runtime::validation_report>* validated
                                             = nullptr) {
  std::vector<runtime::step_report> out;
  const auto watch = [&](caf::actor_system& system, const actors::drain_request&) {
    return system.spawn([&out, validated]() -> messages::viewer_actor::behavior_type {
      return {[&out](const messages::committed& x) { out.push_back(x.report); },
              [validated](const messages::validated& x) {
                if (validated != nullptr)
                  validated->push_back(x.report);
              }};
    });
  };
  const auto end = actors::run(tests::tiny_prepared(job), {}, {watch});
  CHECK(end.reason == "");
  return out;
}

}  // namespace

TEST_CASE("a user's block, loss and learning rate give the bits of the reference trainer",
          "[scenario]") {
  const int P = GENERATE(1, 2), D = GENERATE(1, 2);
  const bool forgets = GENERATE(false, true);
  CAPTURE(P, D, forgets);
  auto job = own_job(P, D);
  if (forgets)
    job.recompute
        = {.granularity = runtime::recompute_granularity::selective, .feed_forward = true};
  const auto expected = tests::by_reference_trainer(job), seen = reports_of(job);
  REQUIRE(seen.size() == expected.size());
  CHECK(std::abs(expected[0].loss / 2 - std::log(61.0)) < 0.3);
  CHECK(expected[4].learning_rate == job.training.rate_of.at(32));
  for (std::size_t i = 0; i < seen.size(); ++i) {
    CHECK(seen[i].state == expected[i].state);
    CHECK(seen[i].loss == expected[i].loss);
    CHECK(seen[i].learning_rate == expected[i].learning_rate);
  }
}

TEST_CASE("parameters that stay f32 give the bits of the reference trainer", "[scenario]") {
  const int P = GENERATE(1, 2), D = GENERATE(1, 2);
  const bool distributed = GENERATE(false, true);
  CAPTURE(P, D, distributed);
  auto job = tests::tiny_job(P, D);
  job.training.own = {.name = "scales", .feed_forward = tests::add_scale};
  job.training.precision = runtime::dtype::bf16;
  job.reduction.distributed_optimizer = distributed;
  const auto expected = tests::by_reference_trainer(job), seen = reports_of(job);
  REQUIRE(seen.size() == expected.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    CHECK(seen[i].state == expected[i].state);
    CHECK(seen[i].loss == expected[i].loss);
  }
}

TEST_CASE("losses of layers on all stages are those of the reference trainer", "[scenario]") {
  const int P = GENERATE(1, 2), D = GENERATE(1, 2);
  CAPTURE(P, D);
  auto job = own_job(P, D);
  job.training.own.feed_forward = sublayer_with_loss;
  job.training.own.losses = {{"place loss", 0.25}};
  if (GENERATE(false, true))
    job.recompute.granularity = runtime::recompute_granularity::full;
  const auto expected = tests::by_reference_trainer(job), seen = reports_of(job);
  REQUIRE(seen.size() == expected.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    REQUIRE(seen[i].losses.size() == 2);
    CHECK(seen[i].losses == expected[i].losses);
    CHECK(seen[i].loss == expected[i].loss);
    CHECK(seen[i].loss == seen[i].losses[0].mean + 0.25 * seen[i].losses[1].mean);
    CHECK(seen[i].state == expected[i].state);
  }
  CHECK(seen.back().losses[1].mean < seen.front().losses[1].mean);
}

TEST_CASE("weighted losses keep their bits under a moving loss scale, and per token",
          "[scenario]") {
  auto job = own_job(2, 2);
  job.training.own.feed_forward = sublayer_with_loss;
  job.training.own.losses = {{"place loss", 0.25}};
  job.training.precision = runtime::dtype::f16;
  job.training.scaling.initial = 1 << 24;  // some steps are skipped
  job.training.per_token_loss = GENERATE(false, true);
  const auto expected = tests::by_reference_trainer(job), seen = reports_of(job);
  REQUIRE(seen.size() == expected.size());
  CHECK(expected.back().skipped.iterations > 0);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    CHECK(seen[i].losses == expected[i].losses);
    CHECK(seen[i].scale.value == expected[i].scale.value);
    CHECK(seen[i].state == expected[i].state);
  }
}

TEST_CASE("several losses of chunks in turn, of two copies and of replicas in turn", "[scenario]") {
  auto job = own_job(2, 2);
  job.training.own.feed_forward = sublayer_with_loss;
  job.training.own.losses = {{"place loss", 0.25}};
  job.training.model.as<runtime::gpt_config>().layers = 8;
  job.training.batch = {.micro = 1, .global = 16, .data_parallel = 2};
  job.train_iterations = 4;
  const std::string schedule = GENERATE("interleaved", "dualpipe", "1f1b");
  CAPTURE(schedule);
  job.layout.schedule.source = schedule;
  if (schedule == "1f1b")
    tests::play_in_turn(job, 2);
  const auto expected = tests::by_reference_trainer(job), seen = reports_of(job);
  REQUIRE(seen.size() == expected.size());
  for (std::size_t i = 0; i < seen.size(); ++i)
    for (std::size_t j = 0; j < 2; ++j) {
      const auto a = seen[i].losses.at(j).mean, b = expected[i].losses.at(j).mean;
      CHECK(std::abs(a / b - 1) < 1e-15);
    }
}

TEST_CASE("a validation has the mean of each loss that the reference trainer has", "[scenario]") {
  const int P = GENERATE(1, 2), D = GENERATE(1, 2);
  CAPTURE(P, D);
  auto job = own_job(P, D);
  job.training.own.feed_forward = sublayer_with_loss;
  job.training.own.losses = {{"place loss", 0.25}};
  job.train_iterations = 2;
  job.watch.eval_interval = 2;
  job.watch.eval_batches = 5;  // several rounds
  std::vector<runtime::validation_report> seen;
  reports_of(job, &seen);
  REQUIRE(!seen.empty());
  CHECK(seen.front().iteration == 2);
  runtime::stream stream(job.backend, 1, {});
  runtime::reference_trainer trainer(
      job.training, std::make_shared<tests::formula_source>(job.training, true), stream);
  trainer.step();
  trainer.step();
  const auto expected = trainer.evaluate(tests::formula_source(job.training, false), 5);
  REQUIRE(seen.front().losses.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(seen.front().losses[i].name == expected.by_name[i].name);
    // Sums in double, in another order.
    CHECK(std::abs(seen.front().losses[i].mean / expected.by_name[i].mean - 1) < 1e-14);
  }
  CHECK(std::abs(seen.front().loss / expected.loss - 1) < 1e-14);
}

TEST_CASE("losses of layers on tensor ranks are those of the reference trainer", "[scenario]") {
  auto job = own_job(2, 1, 2);
  job.training.own.feed_forward = sublayer_with_loss;
  job.training.own.losses = {{"place loss", 0.25}};
  job.layout.sequence_parallel = GENERATE(false, true);
  const auto expected = tests::by_reference_trainer(job), seen = reports_of(job);
  REQUIRE(seen.size() == expected.size());
  for (std::size_t i = 0; i < seen.size(); ++i)
    for (std::size_t j = 0; j < 2; ++j)
      CHECK(std::abs(seen[i].losses.at(j).mean - expected[i].losses.at(j).mean) < 1e-4);
}

TEST_CASE("MODEL-8: a loss of the rows of one tensor rank ends the run", "[scenario][fault]") {
  auto job = own_job(1, 1, 2);
  job.training.own.feed_forward = sublayer_with_own_rows;
  job.training.own.losses = {{"place loss"}};
  job.train_iterations = 1;
  CHECK(actors::run(tests::tiny_prepared(job)).reason == "");
  job.layout.sequence_parallel = true;
  CHECK_THAT(actors::run(tests::tiny_prepared(job)).reason, ContainsSubstring("MODEL-8"));
}

TEST_CASE("a user's block is sharded over tensor ranks", "[scenario]") {
  auto job = own_job(2, 1, 2);
  job.layout.sequence_parallel = GENERATE(false, true);
  const auto expected = tests::by_reference_trainer(job), seen = reports_of(job);
  REQUIRE(seen.size() == expected.size());
  for (std::size_t i = 0; i < seen.size(); ++i)
    CHECK(std::abs(seen[i].loss - expected[i].loss) < 1e-4);  // another order of sums
}

TEST_CASE("the memory of a user's block is forecast", "[scenario]") {
  const auto job = own_job(1, 1);
  auto more = job;
  more.training.own.feed_forward
      = [](runtime::module_builder& to, const runtime::feed_forward_spec& in_place_of) {
          squared_sublayer(to, in_place_of);
          to.add({.name = "spare", .extents = {1000, 32}});
        };
  const auto usual = runtime::forecast_memory(job, {}), fat = runtime::forecast_memory(more, {});
  // 4 layers x 32,000 values of 4 bytes; the pool's blocks are up to a quarter larger.
  CHECK(fat.parameters - usual.parameters > 4 * 32000 * 4 * 3 / 4);
}

TEST_CASE("a model with an extension is loaded with it, and refused without", "[scenario]") {
  const tests::scratch_folder folder;
  auto job = own_job(2, 1);
  job.checkpoints.save = folder / "run";
  job.train_iterations = 2;
  const runtime::tokenizer_choice numbers{.type = "NullTokenizer", .vocabulary_size = 61};
  job.tokenizer_description = runtime::describe(numbers, *runtime::make_tokenizer(numbers));
  std::filesystem::create_directories(job.checkpoints.save);
  REQUIRE(actors::run(tests::tiny_prepared(job)).exit_code == 0);

  job.checkpoints.load = job.checkpoints.save;
  CHECK(actors::plan_start(job).iteration == 2);
  auto another = job;
  another.training.own.name = "cubes";
  CHECK_THROWS_MATCHES(
      actors::plan_start(another),
      runtime::input_error,
      MessageMatches(ContainsSubstring("'squares'") && ContainsSubstring("'cubes'")));
  another.training.own = {};
  CHECK_THROWS_MATCHES(actors::plan_start(another),
                       runtime::input_error,
                       MessageMatches(ContainsSubstring("no extension")));
  CHECK_THROWS_MATCHES(runtime::loaded_model({.from = folder / "run"}),
                       runtime::input_error,
                       MessageMatches(ContainsSubstring("'squares'")));
  runtime::loaded_model model({.from = folder / "run", .own = job.training.own});
  CHECK(model.manifest().iteration == 2);

  auto slower = job;  // another function: the name is reported, and the model is loaded
  slower.training.rate_of.name = "slower";
  const auto start = actors::plan_start(slower);
  CHECK(start.warnings.size() == 1);
  CHECK_THAT(start.warnings.at(0), ContainsSubstring("rate/own"));
}

TEST_CASE("a viewer can end the job, and its death is ignored", "[scenario]") {
  auto job = tests::tiny_job(2, 2);
  int seen = 0;
  const auto dies = [](caf::actor_system& system, const actors::drain_request&) {
    return system.spawn(
        [](messages::viewer_actor::pointer self) -> messages::viewer_actor::behavior_type {
          return {[=](const messages::committed&) {
                    self->quit(caf::exit_reason::unhandled_exception);
                  },
                  [](const messages::validated&) {}};
        });
  };
  const auto asks = [&](caf::actor_system& system, const actors::drain_request& drain) {
    return system.spawn([&seen, drain]() -> messages::viewer_actor::behavior_type {
      return {[&seen, drain](const messages::committed& x) {
                seen = int(x.report.iteration);
                if (seen == 3)
                  drain("enough");
              },
              [](const messages::validated&) {}};
    });
  };
  job.train_iterations = 100000;
  const auto end = actors::run(tests::tiny_prepared(job), {}, {dies, asks});
  CHECK(end.reason == "");
  CHECK(end.exit_code == 0);
  CHECK(seen >= 3);
}
