// Deaths in every kind of arrangement: a sample of actors, lanes and moments in each.

#include "tests/support/places.hpp"
#include "tests/support/recovered_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <map>
#include <string>

using namespace troupe;
using tests::arrangement;

namespace {

/// Actors and lanes of two stages of a replica, and moments of a step, spread.
std::string sampled_death() {
  return GENERATE("stage:0.1@4:forward",
                  "lane:0.0@3:weight-gradient",
                  "lane:0.1@4:reduce",
                  "replica:0@5:decided",
                  "lane:0.0@2:updated",
                  "supervisor@4:acknowledged");
}

runtime::training_job small_steps(const std::string& schedule, int data = 1) {
  auto job = tests::tiny_job(2, data);
  job.training.batch = {.micro = 1, .global = 4 * data, .data_parallel = data};
  job.layout.schedule.source = schedule;
  return tests::watched_job(job);
}

/// Reads its first scale of the loss down on the way.
arrangement scaled(bool distributed) {
  auto job = tests::tiny_job(2, 2);
  job.training.precision = runtime::dtype::f16;
  job.training.scaling = {.initial = 1 << 24, .window = 2, .hysteresis = 1};
  job.reduction.distributed_optimizer = distributed;
  job.reduction.grain = 256;
  return {distributed ? "fp16 distributed" : "fp16", tests::watched_job(job)};
}

arrangement of_data(bool distributed) {
  auto job = tests::tiny_job(2, 2);
  job.reduction = {.distributed_optimizer = distributed, .bucket_size = 4096, .grain = 256};
  return {distributed ? "data distributed" : "data", tests::watched_job(job)};
}

arrangement recomputed(runtime::recompute_granularity how) {
  auto job = tests::tiny_job(2, 1);
  job.recompute.granularity = how;
  return {how == runtime::recompute_granularity::full ? "full" : "selective",
          tests::watched_job(job)};
}

arrangement in_turn() {
  auto job = tests::tiny_job(2, 2);
  tests::play_in_turn(job, 2);
  return {"in turn", tests::watched_job(job)};
}

/// Goes on from iteration 1 of another run.
arrangement resumed() {
  static const tests::scratch_folder folder;
  auto job = tests::watched_job(tests::tiny_job(2, 2));
  static const auto from = [&] {
    auto first = job;
    first.checkpoints.save = folder / "checkpoints";
    first.exit_interval = 1;
    REQUIRE(actors::run(tests::tiny_prepared(first)).exit_code == 0);
    return *runtime::latest_checkpoint(first.checkpoints.save).folder;
  }();
  return {"resumed", job, [](const auto& x) { return tests::going_on(x, from); }};
}

/// Takes gradients when there are any: what it does depends on what has come.
class eager final : public runtime::behaviour {
 public:
  std::optional<runtime::action> next(const runtime::stage_view& now) override {
    for (const auto& x : now.ready)
      if (x.kind == runtime::action_kind::input_gradients)
        return x;
    return now.ready.front();
  }
};

arrangement decided_in_cpp() {
  auto job = small_steps("");
  job.layout.schedule.own
      = {.name = "eager", .make = [](int, int, int, int) { return std::make_unique<eager>(); }};
  return {"eager", job};
}

arrangement decided_by_script() {
  return {"reactive.lua", small_steps(tests::source_dir() + "/examples/schedules/reactive.lua", 2)};
}

}  // namespace

TEST_CASE("a death while fp16 looks for the scale of its loss leaves out the same steps",
          "[scenario][recovery]") {
  const auto what = scaled(GENERATE(false, true));
  const auto& calm = tests::undisturbed(what);
  const int skipped = calm.steps.back()["skipped_iterations"];
  REQUIRE(skipped > 1);
  REQUIRE(skipped < 5);
  REQUIRE(calm.steps.at(0)["loss_scale"] != calm.steps.at(5)["loss_scale"]);
  const std::string death = GENERATE("stage:0.1@4:forward",
                                     "lane:0.0@1:weight-gradient",
                                     "lane:1.1@2:reduce",
                                     "replica:0@2:decided",
                                     "lane:0.1@1:updated",
                                     "stage:1.0@2:acknowledged",
                                     "lane:0.0@5:updated",
                                     "supervisor@2:acknowledged",
                                     "node@3:vote");
  CAPTURE(what.name, death);
  tests::check_survives(what, death);
}

TEST_CASE("schedules that part the backward pass, and V-shaped ones, survive deaths",
          "[scenario][recovery]") {
  const std::string schedule = GENERATE("zb-h1", "zb-v", "interleaved");
  const auto death = sampled_death();
  CAPTURE(schedule, death);
  tests::check_survives({schedule, small_steps(schedule)}, death);
}

TEST_CASE("two copies of the model survive deaths", "[scenario][recovery]") {
  const int data = GENERATE(1, 2);
  const auto death = sampled_death();
  CAPTURE(data, death);
  tests::check_survives({"dualpipe " + std::to_string(data), small_steps("dualpipe", data)}, death);
}

TEST_CASE("what a behaviour decides while it runs may be another when the step runs again",
          "[scenario][recovery]") {
  const auto what = GENERATE(false, true) ? decided_by_script() : decided_in_cpp();
  const auto death = sampled_death();
  CAPTURE(what.name, death);
  tests::check_survives(what, death);
}

TEST_CASE("a worker that plays replicas in turn is replaced", "[scenario][recovery]") {
  const auto death = sampled_death();
  CAPTURE(death);
  tests::check_survives(in_turn(), death);
}

TEST_CASE("a worker that computes activations again is replaced", "[scenario][recovery]") {
  const bool whole = GENERATE(false, true);
  const auto what = recomputed(whole ? runtime::recompute_granularity::full
                                     : runtime::recompute_granularity::selective);
  const auto death = sampled_death();
  CAPTURE(what.name, death);
  tests::check_survives(what, death);
}

TEST_CASE("replicas survive deaths with a distributed optimizer and without",
          "[scenario][recovery]") {
  const auto what = of_data(GENERATE(false, true));
  const std::string death = GENERATE("stage:1.1@4:forward",
                                     "lane:0.0@3:weight-gradient",
                                     "lane:1.1@4:reduce",
                                     "replica:1@5:decided",
                                     "lane:1.0@2:updated",
                                     "stage:0.1@6:updated",
                                     "supervisor@4:acknowledged");
  CAPTURE(what.name, death);
  tests::check_survives(what, death);
}

TEST_CASE("a run that was resumed survives deaths, in its first step, too",
          "[scenario][recovery]") {
  const auto what = resumed();
  REQUIRE(tests::undisturbed(what).iterations == std::vector<std::uint64_t>{2, 3, 4, 5, 6});
  const std::string death = GENERATE("lane:0.1@2:restore",
                                     "stage:0.1@2:forward",
                                     "lane:1.0@2:updated",
                                     "lane:0.0@3:weight-gradient",
                                     "replica:0@5:decided",
                                     "node@3:reduce",
                                     "supervisor@4:acknowledged");
  CAPTURE(death);
  tests::check_survives(what, death);
}
