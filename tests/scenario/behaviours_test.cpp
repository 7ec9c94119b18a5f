// Schedules that are decided at run time: same bits, one decision for all tensor ranks, and a
// record that is a plan.

#include "runtime/schedule/check.hpp"
#include "tests/support/places.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_job.hpp"

#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <cctype>
#include <map>
#include <mutex>
#include <stdexcept>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string shipped(const std::string& name) {
  return troupe::tests::source_dir() + "/examples/schedules/" + name;
}

runtime::training_job job_of(const std::string& schedule, int pipeline, int data, int tensor) {
  auto job = tests::tiny_job(pipeline, data, tensor);
  job.training.batch = {.micro = 1, .global = 6 * data, .data_parallel = data};
  job.layout.schedule.source = schedule;
  job.train_iterations = 5;
  return job;
}

/// Reports that a viewer received.
struct seen {
  std::mutex mutex;
  std::vector<messages::committed> steps;
};

actors::make_viewer viewer(const std::shared_ptr<seen>& to) {
  return [to](caf::actor_system& home, const actors::drain_request&) {
    return home.spawn([to]() -> messages::viewer_actor::behavior_type {
      return {[to](const messages::committed& x) {
                const std::lock_guard lock(to->mutex);
                to->steps.push_back(x);
              },
              [](const messages::validated&) {}};
    });
  };
}

std::vector<messages::committed> run(const std::shared_ptr<actors::prepared_job>& prepared) {
  const auto told = std::make_shared<seen>();
  const auto end = actors::run(prepared, {}, {viewer(told)});
  CHECK(end.reason == "");
  REQUIRE(end.exit_code == 0);
  return told->steps;
}

/// Takes ready actions, gradients first; `odd` can override the choice.
class eager final : public runtime::behaviour {
 public:
  explicit eager(std::function<std::optional<std::optional<runtime::action>>()> odd)
      : odd_(std::move(odd)) {}

  std::optional<runtime::action> next(const runtime::stage_view& now) override {
    if (odd_)
      if (const auto other = odd_())
        return *other;
    for (const auto& x : now.ready)
      if (x.kind == runtime::action_kind::input_gradients)
        return x;
    return now.ready.front();
  }

 private:
  std::function<std::optional<std::optional<runtime::action>>()> odd_;
};

}  // namespace

TEST_CASE("a script that schedules at run time gives the bits of the reference trainer",
          "[scenario]") {
  const std::string script = GENERATE("reactive.lua", "1f1b.lua", "zb_h1.lua");
  const bool delayed = GENERATE(false, true);
  CAPTURE(script, delayed);
  auto job = job_of(shipped(script), 2, 2, 1);
  if (delayed)
    job.faults = {.seed = 3, .lane_delay_us = 500, .message_delay_us = 500};
  const auto prepared = tests::tiny_prepared(job);
  const auto steps = run(prepared);
  const auto expected = tests::by_reference_trainer(job);
  REQUIRE(steps.size() == expected.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CHECK(steps[i].report.state == expected[i].state);
    CHECK(steps[i].report.loss == expected[i].loss);
  }
}

TEST_CASE("tensor ranks follow the first one's decisions, also with recomputation", "[scenario]") {
  auto job = job_of(shipped("reactive.lua"), 2, 2, 2);
  job.recompute.granularity = runtime::recompute_granularity::selective;
  job.faults = {.seed = 4, .lane_delay_us = 400, .message_delay_us = 400};
  const auto prepared = tests::tiny_prepared(job);
  const auto steps = run(prepared);
  auto planned = job;
  planned.layout.schedule.source = "1f1b";
  const auto others = run(tests::tiny_prepared(planned));
  REQUIRE(steps.size() == others.size());
  for (std::size_t i = 0; i < steps.size(); ++i)
    CHECK(steps[i].report.state == others[i].report.state);

  std::map<std::tuple<int, int, std::uint64_t>, std::map<int, std::vector<std::string>>> rows;
  for (const auto& x : prepared->node->trace->spans()) {
    const auto at = prepared->opened().seats.at(x.rank);
    if (std::isdigit(x.name.front()) != 0)
      rows[{at[runtime::axis::data], at[runtime::axis::pipeline], runtime::value(x.step)}]
          [at[runtime::axis::tensor]]
              .push_back(x.name);
  }
  CHECK(rows.size() == 2 * 2 * job.train_iterations);
  for (const auto& [stage, by_tensor] : rows)
    CHECK(by_tensor.at(0) == by_tensor.at(1));
}

TEST_CASE("the record of decisions is a sound plan, and can be run again", "[scenario]") {
  auto job = job_of(shipped("reactive.lua"), 4, 1, 1);
  job.faults = {.seed = 9, .lane_delay_us = 800, .message_delay_us = 300};
  const tests::scratch_folder folder;
  job.watch.schedule_record = folder / "done.csv";
  const auto prepared = tests::tiny_prepared(job);
  const auto steps = run(prepared);
  auto again = job;
  again.layout.schedule.source = job.watch.schedule_record.string();
  again.watch.schedule_record.clear();
  again.recompute = {};
  const auto replayed = run(tests::tiny_prepared(again));
  CHECK(replayed.back().report.state == steps.back().report.state);
  REQUIRE(replayed.back().executed.size() == 4);
  for (const auto& step : steps) {
    auto plan = *prepared->opened().pipeline.schedule->training(step.microbatches);
    REQUIRE(step.executed.size() == plan.ranks.size());
    for (const auto& row : step.executed) {
      auto& to = plan.ranks.at(std::size_t(row.rank));
      to.clear();
      for (const auto& x : row.actions)
        to.push_back(x.what);
    }
    CHECK(runtime::validate(plan).empty());
    CHECK(runtime::accumulates_in_order(plan));
  }
}

TEST_CASE("a behaviour that leaves ready actions undone ends the run after a timeout",
          "[scenario]") {
  // Rank 0 waits for its own first forward, so it never starts.
  class lazy final : public runtime::behaviour {
   public:
    explicit lazy(bool tired) : tired_(tired) {}
    std::optional<runtime::action> next(const runtime::stage_view& now) override {
      if (tired_ && now.finished.front().forward == 0)
        return std::nullopt;
      return now.ready.front();
    }

   private:
    bool tired_;
  };
  const auto made = std::make_shared<std::atomic<int>>(0);
  auto job = job_of("", 2, 1, 1);
  const auto rehearsed = std::make_shared<std::atomic<bool>>(false);
  job.layout.schedule.own = {.name = "lazy", .make = [=](int rank, int, int, int) {
                               ++*made;
                               return std::make_unique<lazy>(*rehearsed && rank == 0);
                             }};
  job.train_iterations = 1;
  const auto prepared = tests::tiny_prepared(job);
  const auto judged = tests::by_reference_trainer(job);
  *rehearsed = true;
  const int before = *made;
  const auto steps = run(prepared);
  CHECK(*made == before + 2);
  CHECK(steps.front().report.state == judged.front().state);
}

TEST_CASE("a behaviour that never acts ends the run", "[scenario]") {
  const auto rehearsed = std::make_shared<std::atomic<bool>>(false);
  auto job = job_of("", 2, 1, 1);
  job.layout.schedule.own
      = {.name = "asleep", .make = [=](int, int, int, int) {
           return std::make_unique<eager>([=]() -> std::optional<std::optional<runtime::action>> {
             if (!*rehearsed)
               return std::nullopt;
             return std::optional<std::optional<runtime::action>>(std::in_place, std::nullopt);
           });
         }};
  const auto prepared = tests::tiny_prepared(job);
  *rehearsed = true;
  const auto end = actors::run(prepared);
  CHECK(end.exit_code == 2);
  CHECK_THAT(end.reason, ContainsSubstring("asleep"));
  CHECK_THAT(end.reason, ContainsSubstring("undone in step 1"));
}

TEST_CASE("a behaviour that throws ends the run, and is named", "[scenario]") {
  const bool throws = GENERATE(true, false);
  CAPTURE(throws);
  const auto rehearsed = std::make_shared<std::atomic<bool>>(false);
  auto job = job_of("", 2, 1, 1);
  job.layout.schedule.own
      = {.name = "mine", .make = [=](int, int, int, int) {
           return std::make_unique<eager>([=]() -> std::optional<std::optional<runtime::action>> {
             if (!*rehearsed)
               return std::nullopt;
             if (throws)
               throw std::out_of_range("I have no idea");
             return std::optional(
                 runtime::action{runtime::action_kind::weight_gradients, runtime::chunk_id(0), {}});
           });
         }};
  const auto prepared = tests::tiny_prepared(job);
  *rehearsed = true;
  const auto end = actors::run(prepared);
  CHECK(end.exit_code == 2);
  CHECK_THAT(end.reason, ContainsSubstring("mine"));
  CHECK_THAT(end.reason, ContainsSubstring("in step 1"));
  CHECK_THAT(end.reason, ContainsSubstring(throws ? "I have no idea" : "cannot run now"));
}
