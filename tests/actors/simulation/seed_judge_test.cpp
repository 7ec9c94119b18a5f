// Seeds without complaints, and each oracle.

#include "actors/simulation/seed_judge.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/trainer/reference_trainer.hpp"
#include "tests/support/families.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::actors;
using namespace troupe::actors::simulation;

namespace {

/// Hides warnings about simulated failures of the disk.
struct quiet {
  quiet() { runtime::set_log_level(runtime::severity::error); }
  ~quiet() { runtime::set_log_level(runtime::severity::info); }
};

seen_run good_run() {
  seen_run out;
  out.end = outcome{};
  for (std::uint64_t i = 1; i <= 3; ++i) {
    runtime::step_report step{.iteration = i, .loss = 1.0 / double(i)};
    step.state = {i, i};
    out.committed.push_back(step);
    out.taken_down.push_back(i);
    out.ledger.push_back(step.state);
  }
  out.samples = {0, 1, 2};
  out.saved = {{"iter_0000003/model.safetensors", "aa"}};
  return out;
}

std::string wrong_with(const std::function<void(seen_run&)>& change) {
  auto seen = good_run();
  change(seen);
  const auto all = complaints(seen, good_run());
  return all.empty() ? "" : all.front();
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Plays a job with actors, and compares each state with that of the trainer without actors.
void check_against_trainer(const runtime::training_job& job) {
  CAPTURE(job.training.model.family().name(), describe_shape(job));
  const auto prepared = prepare_small(job);
  const auto seen = play(prepared, {});
  auto recipe = job.training;
  // A copy of the model is a replica.
  recipe.batch.data_parallel *= prepared.job.opened().pipeline.schedule->copies();
  runtime::stream stream(job.backend, 1, {});
  runtime::reference_trainer judge(
      recipe, std::make_shared<made_up_samples>(recipe, runtime::data_split::train), stream);
  REQUIRE(seen.committed.size() == job.train_iterations);
  for (const auto& step : seen.committed)
    CHECK(step.state == judge.step().state);
}

}  // namespace

TEST_CASE("seeds pass: schedules, delays, deaths and disk faults do not change finished runs",
          "[simulation]") {
  const quiet here;
  const tests::scratch_folder folder;
  seed_judge judge(folder / "simulated");
  int deaths = 0, with_experts = 0;
  const seed_options counts
      = {.trace = [&](std::string_view x) { with_experts += x.find(", EP ") != x.npos ? 1 : 0; }};
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const auto verdict = judge.judge(seed, counts);
    CAPTURE(seed, verdict.wrong);
    CHECK(verdict.wrong.empty());
    deaths += verdict.died ? 1 : 0;
  }
  CHECK(deaths > 5);
  CHECK(with_experts > 5);
}

TEST_CASE("seeds pass with models of other families", "[simulation]") {
  const quiet here;
  for (const auto* family : tests::test_families()) {
    const tests::scratch_folder folder;
    seed_judge judge(folder / "simulated", *family);
    int deaths = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const auto verdict = judge.judge(seed);
      CAPTURE(family->name(), seed, verdict.wrong);
      CHECK(verdict.wrong.empty());
      deaths += verdict.died ? 1 : 0;
    }
    CHECK(deaths > 1);
  }
}

TEST_CASE("shapes with experts share them between ranks and replicas, others have none",
          "[simulation]") {
  const tests::scratch_folder folder;
  int by_ranks = 0, by_replicas = 0;
  for (std::uint64_t shape = 0; shape < expert_shapes + job_shapes; ++shape) {
    const auto job = small_job(shape, folder / "saved");
    const auto& l = job.layout;
    const auto& model = job.training.model;
    CAPTURE(describe_shape(job));
    CHECK(model.family().shared_by_expert_ranks(model).empty() == (shape < expert_shapes));
    by_ranks += l.expert > 1 ? 1 : 0;
    by_replicas += l.expert * l.expert_tensor_ranks() > l.tensor ? 1 : 0;
  }
  CHECK(by_ranks >= 16);
  CHECK(by_replicas >= 16);
}

TEST_CASE("a seed gives the same trace, byte by byte", "[simulation][unsanitized]") {
  const quiet here;
  const std::uint64_t seed = GENERATE(range(101, 107));
  std::string traces[2];
  std::uint64_t hashes[2];
  for (int i = 0; i < 2; ++i) {
    const tests::scratch_folder folder;
    seed_judge judge(folder / "simulated");
    if (i == 1)
      judge.judge(seed + 1);  // earlier runs have no influence
    hashes[i] = judge.judge(seed, {.trace = [&](std::string_view x) { traces[i] += x; }}).hash;
  }
  CHECK(traces[0].size() > 1000);
  CHECK(traces[0] == traces[1]);
  CHECK(hashes[0] == hashes[1]);
}

TEST_CASE("undisturbed simulated runs equal those of the trainer without actors", "[simulation]") {
  const quiet here;
  auto families = tests::test_families();
  families.push_back(&runtime::default_family());
  for (const auto* family : families) {
    const tests::scratch_folder folder;
    int compared = 0, with_copies = 0, with_experts = 0;
    const auto shapes = family->smallest_with_experts(2) ? expert_shapes + job_shapes : job_shapes;
    for (std::uint64_t shape = 0; shape < shapes; ++shape) {
      auto job = small_job(shape, folder / "saved", false, 1, *family);
      if (job.layout.tensor > 1 || job.layout.sums_follow_ranks()
          || job.reduction.grain != runtime::default_grain)
        continue;  // they sum in another order
      check_against_trainer(job);
      ++compared;
      with_experts += shape >= expert_shapes ? 1 : 0;
      job.layout.schedule.source = "dualpipe";  // rare among the shapes
      if (job.layout.pipeline > 1 && runtime::validate(job).empty()) {
        check_against_trainer(job);
        ++with_copies;
      }
    }
    CHECK(compared - with_experts >= 12);
    CHECK(with_copies > 0);
    CHECK((with_experts >= 6) == (shapes > job_shapes));
  }
}

TEST_CASE("each oracle complains of its own fault only", "[simulation]") {
  CHECK(wrong_with([](seen_run&) {}).empty());
  CHECK(says(wrong_with([](seen_run& x) { x.end.reset(); }), "does not end"));
  CHECK(says(wrong_with([](seen_run& x) { x.leased = 2; }), "2 tickets are still leased"));
  CHECK(says(wrong_with([](seen_run& x) { x.dropped = 1; }), "never redeemed"));
  CHECK(says(wrong_with([](seen_run& x) { x.actors_left = {"stage#9"}; }), "stage#9"));
  CHECK(says(wrong_with([](seen_run& x) { x.fibers_left = {"lane 0.1"}; }), "lane 0.1"));
  CHECK(says(wrong_with([](seen_run& x) { x.stuck_lanes = {"lane 0.1"}; }), "hang"));
  CHECK(says(wrong_with([](seen_run& x) {
               x.committed.pop_back();
               x.taken_down.pop_back();
               x.ledger.pop_back();
             }),
             "2 of 3 steps"));
  CHECK(says(wrong_with([](seen_run& x) { x.committed[1].iteration = 1; }), "no. 2 is step 1"));
  CHECK(says(wrong_with([](seen_run& x) { x.committed[1].state = {7, 7}; }), "after step 2"));
  CHECK(says(wrong_with([](seen_run& x) { x.committed[1].loss = 7; }), "loss of step 2"));
  CHECK(says(wrong_with([](seen_run& x) { x.samples.erase(1); }), "samples"));
  CHECK(says(wrong_with([](seen_run& x) { x.validated.emplace_back(); }), "validations"));
  CHECK(says(wrong_with([](seen_run& x) { x.saved.clear(); }), "is not saved"));
  CHECK(says(wrong_with([](seen_run& x) { x.saved.begin()->second = "bb"; }), "saved file"));
  CHECK(says(wrong_with([](seen_run& x) { x.end = outcome{3, "why"}; }), "without a fault"));
  CHECK(says(wrong_with([](seen_run& x) { x.taken_down[1] = 1; }), "log is step 1"));
  CHECK(says(wrong_with([](seen_run& x) { x.taken_down.push_back(4); }), "more steps than"));
  CHECK(says(wrong_with([](seen_run& x) { x.ledger[2] = {7, 7}; }), "state of step 3"));
  CHECK(says(wrong_with([](seen_run& x) { x.ledger.pop_back(); }), "the ledger has 2"));
  const auto recovering = [](const std::function<void(seen_run&)>& change) {
    return wrong_with([&](seen_run& x) {
      x.recovers = true;
      x.killed = {"stage#9"};
      x.restarts = {"replica at step 3"};
      x.events = {{.iteration = 2, .kind = "restart", .who = "replica", .resumed = 2}};
      change(x);
    });
  };
  CHECK(recovering([](seen_run&) {}).empty());
  CHECK(says(recovering([](seen_run& x) { x.killed.clear(); }), "more restarts than deaths"));
  CHECK(says(recovering([](seen_run& x) { x.events[0].resumed = 0; }), "resumed from step 0"));
  CHECK(says(recovering([](seen_run& x) { x.end = outcome{3, "why"}; }), "ended the run: why"));
  CHECK(recovering([](seen_run& x) {
          x.killed = {"stage#9", "the kept state of rank 1"};
          x.state_lost = true;
          x.events[0].resumed = 0;
        }).empty());
  // Four deaths in a row may end a recovering run if its reason names one of them.
  const auto fourth = [&](const std::string& reason) {
    return recovering([&](seen_run& x) {
      x.killed = {"stage#9", "stage#11", "stage#13", "disk"};
      x.end = outcome{3, reason};
    });
  };
  CHECK(fourth("stage:0.1: build: disk: killed by the simulation").empty());
  CHECK(says(fourth("why"), "names another"));
  const auto killed = [](const std::string& reason) {
    return wrong_with([&](seen_run& x) {
      x.killed = {"stage#9"};
      x.end = outcome{3, reason};
    });
  };
  CHECK(says(killed("replica:0: lane_done: cancelled"), "names another"));
  CHECK(killed("replica:0: stage#9: killed by the simulation").empty());
  const auto parted = [](const std::string& reason) {
    return wrong_with([&](seen_run& x) {
      x.broken = {"connection:0-1"};
      x.end = outcome{3, reason};
    });
  };
  CHECK(parted("replica:0: stage:0.1: connection:0-1: broken by the simulation").empty());
  CHECK(says(parted("replica:0: stage:0.1: connection:0-2: broken"), "names another"));
  const auto reconnected = [&](const std::function<void(seen_run&)>& change) {
    return recovering([&](seen_run& x) {
      x.killed.clear();
      x.broken = {"connection:0-1"};
      change(x);
    });
  };
  CHECK(reconnected([](seen_run&) {}).empty());
  CHECK(says(reconnected([](seen_run& x) { x.restarts.emplace_back("again"); }), "more restarts"));
  CHECK(says(reconnected([](seen_run& x) { x.end = outcome{3, "why"}; }), "ended the run: why"));
  CHECK(says(reconnected([](seen_run& x) {
               x.broken = {"connection:0-1", "connection:0-1", "connection:0-1"};
               x.events[0].resumed = 0;  // MEMBER-7
             }),
             "resumed from step 0"));
  const auto flipped = [](const std::string& reason) {
    return wrong_with([&](seen_run& x) {
      x.killed = {"lane:0.1@2:updated:wrong-bits"};
      x.end = outcome{3, reason};
    });
  };
  CHECK(flipped("supervisor: STEP-5: ranks with equal parameters hold").empty());
  CHECK(says(flipped("supervisor: STEP-1: no stage updates"), "names another"));
}

namespace {

/// Two equal replicas of two stages; saves after each step, and skips none.
runtime::training_job alike_replicas(const std::filesystem::path& folder,
                                     bool recovers,
                                     int processes = 1) {
  auto job = small_job(0, folder, recovers);
  job.training.precision = runtime::dtype::f32;
  job.training.batch = {.micro = 1, .global = 4, .data_parallel = 2};
  job.layout = {.world = 4, .pipeline = 2, .processes = processes};
  job.reduction = {};
  job.watch.eval_interval = job.watch.eval_batches = 1;
  job.checkpoints.save = folder;
  job.checkpoints.save_interval = 1;
  REQUIRE(runtime::validate(job).empty());
  return job;
}

struct two_runs {
  seen_run calm, disturbed;
};
two_runs run_with(const std::vector<disturbance>& what, int processes = 1) {
  const tests::scratch_folder folder;
  two_runs out;
  out.calm = play(prepare_small(alike_replicas(folder / "saved", false)), {});
  out.disturbed = play(prepare_small(alike_replicas(folder / "saved", true, processes)),
                       {.hosts = processes, .disturbances = what});
  return out;
}

disturbance at_step(disturbance::kind what, const std::string& moment, std::uint64_t lasts_s = 0) {
  return {.what = what,
          .who = "lane",
          .which = 1,
          .moment = moment_of_step{moment, 3},
          .lasts_ns = lasts_s * 1'000'000'000};
}

}  // namespace

TEST_CASE("a hung lane is replaced after the timeout, even if it resumes", "[simulation]") {
  const quiet here;
  const std::string moment = GENERATE("forward", "reduce", "updated");
  const std::uint64_t lasts_s = GENERATE(0, 45, 70, 100);  // 0: forever
  CAPTURE(moment, lasts_s);
  const auto x = run_with({at_step(disturbance::kind::hang, moment, lasts_s)});
  CHECK(complaints(x.disturbed, x.calm).empty());
  REQUIRE(x.disturbed.events.size() == 1);
  CHECK(says(x.disturbed.events[0].why, "has shown no progress for"));
  CHECK(x.disturbed.restarts.size() == 1);
  CHECK(x.disturbed.turns < 2 * x.calm.turns);  // looks of the failure detector cause few turns
  CHECK(x.disturbed.ns > 30'000'000'000);
}

TEST_CASE("a hung supervisor gets a successor, and does no harm when it resumes", "[simulation]") {
  const quiet here;
  const std::string moment = GENERATE("forward", "reduce", "decided", "updated", "save");
  const std::uint64_t lasts_s = GENERATE(0, 31, 45, 100);  // 0: forever
  CAPTURE(moment, lasts_s);
  auto hang = at_step(disturbance::kind::hang, moment, lasts_s);
  hang.who = "supervisor";
  hang.moment->count = 2;
  const auto x = run_with({hang});
  CHECK(complaints(x.disturbed, x.calm).empty());
  if (lasts_s == 31) {  // it can resume before the next look
    CHECK(x.disturbed.restarts.size() <= 1);
    return;
  }
  REQUIRE(x.disturbed.events.size() == 1);
  CHECK(says(x.disturbed.events[0].why, "supervisor has shown no progress for"));
  CHECK(x.disturbed.restarts.size() == 1);
  CHECK(x.disturbed.ns > 30'000'000'000);
}

TEST_CASE("a hung node blocks only what needs it", "[simulation]") {
  const quiet here;
  const std::string moment = GENERATE("restore", "forward", "updated");
  const std::uint64_t lasts_s = GENERATE(0, 45, 100);  // 0: forever
  CAPTURE(moment, lasts_s);
  auto hang = at_step(disturbance::kind::hang, moment, lasts_s);
  hang.who = "node";
  hang.moment->count = 1;
  // A second failure: the hung node has to end a generation.
  const auto x = run_with({hang,
                           {.what = disturbance::kind::kill_actor,
                            .who = "stage",
                            .moment = moment_of_step{"decision", 7}}});
  CHECK(complaints(x.disturbed, x.calm).empty());
  CHECK(x.disturbed.restarts.size() >= 1);
  CHECK(x.disturbed.ns > 30'000'000'000);
}

TEST_CASE("a lane that is slow within the timeout is not suspected", "[simulation]") {
  const quiet here;
  const auto x = run_with({at_step(disturbance::kind::hang, "forward", 20)});
  CHECK(complaints(x.disturbed, x.calm).empty());
  CHECK(x.disturbed.restarts.empty());
}

TEST_CASE("wrong bits are found before they are committed", "[simulation]") {
  const quiet here;
  const std::string moment = GENERATE("reduce", "updated");
  const auto x = run_with({at_step(disturbance::kind::wrong_bits, moment)});
  CAPTURE(moment, x.disturbed.killed);
  CHECK(complaints(x.disturbed, x.calm).empty());
  REQUIRE(x.disturbed.restarts.size() == 1);
  const auto& why = x.disturbed.events.at(0).why;
  // The embedding is on two stages: STEP-6 can find it.
  CHECK((moment == "reduce" ? says(why, "STEP-2") : says(why, "STEP-5") || says(why, "STEP-6")));
}

TEST_CASE("a damaged kept state is replaced by a checkpoint, even if its first read fails",
          "[simulation]") {
  const quiet here;
  const auto x = run_with({{.what = disturbance::kind::kill_actor,
                            .who = "stage",
                            .moment = moment_of_step{"decision", 13}},
                           {.what = disturbance::kind::damage, .which = 1},
                           {.what = disturbance::kind::refuse_reads, .how_often = 1}});
  CHECK(complaints(x.disturbed, x.calm).empty());
  CHECK(x.disturbed.state_lost);
  CHECK(x.disturbed.restarts.size() == 3);
}

TEST_CASE("the last checkpoint is written after several disk failures", "[simulation]") {
  const quiet here;
  const auto x = run_with({{.what = disturbance::kind::refuse_last, .how_often = 3}});
  CHECK(x.disturbed.disk_refused);
  CHECK(complaints(x.disturbed, x.calm).empty());
}

namespace {

/// Breaks the connection between both processes. At the moment `keep` a keeper redeems tensors; the
/// first four of a generation belong to its initial state.
disturbance broken_at(const moment_of_step& moment,
                      const std::string& planes = "all",
                      std::array<std::uint64_t, 2> heard_ns = {}) {
  return {
      .what = disturbance::kind::break_link, .who = planes, .moment = moment, .heard_ns = heard_ns};
}

}  // namespace

TEST_CASE("LINK-1: a broken connection costs one generation, in any order and delay of the reports",
          "[simulation]") {
  const quiet here;
  const std::string planes = GENERATE("all", "groups", "tickets");
  const std::uint64_t first = GENERATE(0, 1'000'000);
  const std::uint64_t other = GENERATE(0, 2'000'000, 5'000'000'000);
  CAPTURE(planes, first, other);
  const auto x = run_with({broken_at({"keep", 6}, planes, {first, other})}, 2);
  CHECK(complaints(x.disturbed, x.calm).empty());
  CHECK(x.disturbed.broken == std::vector<std::string>{"connection:0-1"});
  CHECK(x.disturbed.killed.empty());
  CHECK(x.disturbed.exchanged.empty());
  REQUIRE(x.disturbed.events.size() == 1);
  CHECK(x.disturbed.events[0].who == "connection:0-1");
  CHECK(says(x.disturbed.events[0].why, "the data connection between process"));
  CHECK(x.disturbed.events[0].from == "estate");
  CHECK(x.disturbed.restarts.size() == 1);
}

TEST_CASE("MEMBER-7: after a second break one end is exchanged, and no step is lost",
          "[simulation]") {
  const quiet here;
  const auto x = run_with({broken_at({"keep", 6}), broken_at({"keep", 14})}, 2);
  CHECK(complaints(x.disturbed, x.calm).empty());
  CHECK(x.disturbed.broken.size() == 2);
  CHECK(x.disturbed.killed.empty());
  CHECK(x.disturbed.exchanged.size() == 1);
  REQUIRE(x.disturbed.events.size() == 2);
  CHECK(x.disturbed.events[1].from == "keeper");
  CHECK(x.disturbed.restarts.size() == 2);
}

TEST_CASE("a broken connection ends a run without recovery, and is named", "[simulation]") {
  const quiet here;
  const tests::scratch_folder folder;
  const auto calm = play(prepare_small(alike_replicas(folder / "saved", false)), {});
  const auto x
      = play(prepare_small(alike_replicas(folder / "saved", false, 2)),
             {.hosts = 2, .disturbances = {broken_at({"vote", 3}, "groups", {0, 1'000'000})}});
  CHECK(complaints(x, calm).empty());
  REQUIRE(x.end);
  CHECK(x.end->exit_code != 0);
  CHECK(says(x.end->reason, "connection:0-1"));
}
