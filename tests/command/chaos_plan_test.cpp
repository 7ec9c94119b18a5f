// Plans of `troupe chaos`: the seed decides all faults in advance. Also tests the report.

#include "actors/command/chaos/plan.hpp"
#include "actors/command/chaos/report.hpp"
#include "actors/command/readers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <set>
#include <tuple>

using namespace troupe;
using namespace troupe::command;
using namespace troupe::command::chaos;

namespace {

/// Two replicas of two stages, in two processes.
runtime::training_job small_job() {
  runtime::training_job job;
  job.train_iterations = 100;
  job.training.batch.data_parallel = 2;
  job.layout.world = 4;
  job.layout.pipeline = 2;
  job.layout.processes = 2;
  job.recovery.on = true;
  job.checkpoints.save = "save";
  job.checkpoints.save_interval = 10;
  return job;
}

plan_wish all_of_it() {
  plan_wish out{.count = 40, .seed = 3, .every = 10, .first = 0, .last = 100, .save_every = 10};
  for (const auto& row : kinds())
    out.kinds.push_back(row.kind);
  for (const auto& row : roles())
    out.roles.push_back(row.who);
  return out;
}

auto values_of(const disturbance& x) {
  return std::tuple(x.number, x.run, x.kind, x.who, x.step, x.delay, x.choice, x.plants);
}

}  // namespace

TEST_CASE("each seed gives its own plan, the same each time", "[chaos]") {
  const auto job = small_job();
  auto wish = all_of_it();
  const auto one = plan_of(wish, job), again = plan_of(wish, job);
  REQUIRE(one.size() == 40);
  wish.seed = 4;
  const auto other = plan_of(wish, job);
  int different = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(values_of(one[i]) == values_of(again[i]));
    different += values_of(one[i]) == values_of(other[i]) ? 0 : 1;
  }
  CHECK(different > 20);
}

TEST_CASE("faults of a run do not overlap, and steps follow the last one", "[chaos]") {
  const auto all = plan_of(all_of_it(), small_job());
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].number == i + 1);
    CHECK(all[i].step + 3 <= 100);
    if (i > 0 && all[i].run == all[i - 1].run)
      CHECK(all[i].step >= all[i - 1].step + 3);
    else
      CHECK(all[i].run == (i == 0 ? 1 : all[i - 1].run + 1));
    CHECK(why_not(all[i].kind, all[i].who, false, false).empty());
    CHECK(all[i].is_planted() == !row_of(all[i].who).is_process);
    if (all[i].moment == "save" || all[i].moment == "snapshot")
      CHECK(all[i].step % 10 == 0);
  }
}

TEST_CASE("--all plans each kind with each role and moment once", "[chaos]") {
  const auto all = plan_of_all(all_of_it(), small_job());
  std::set<std::tuple<fault_kind, role, std::string>> seen;
  for (const auto& x : all)
    CHECK(seen.emplace(x.kind, x.who, x.moment).second);
  CHECK(seen.contains({fault_kind::sigkill, role::node, ""}));
  CHECK(seen.contains({fault_kind::sigkill, role::supervisor, ""}));
  CHECK(seen.contains({fault_kind::sigkill, role::lane, "weight-gradient"}));
  CHECK(seen.contains({fault_kind::flipped_bits, role::lane, "updated"}));
  CHECK(seen.contains({fault_kind::flipped_moment, role::lane, "updated"}));
  CHECK(seen.contains({fault_kind::flipped_second_moment, role::lane, "updated"}));
  CHECK(seen.contains({fault_kind::flipped_bits, role::keeper, "redeem"}));
  CHECK_FALSE(seen.contains({fault_kind::flipped_moment, role::keeper, "redeem"}));
  CHECK_FALSE(
      seen.contains({fault_kind::flipped_bits, role::lane, "forward"}));  // verification is off
  CHECK(seen.contains({fault_kind::sigkill, role::keeper, "acknowledged"}));
  CHECK(seen.contains({fault_kind::sigkill, role::shard_writer, "save"}));
  CHECK(seen.contains({fault_kind::hang, role::shard_writer, "save"}));
  CHECK_FALSE(seen.contains({fault_kind::link_down, role::node, ""}));
  CHECK_FALSE(seen.contains({fault_kind::exit, role::node, ""}));
  for (const auto moment : {"forward", "reduce", "vote", "decided", "updated", "acknowledged"})
    CHECK(seen.contains({fault_kind::sigkill, role::stage, moment}));
}

TEST_CASE("a fault of a run starts after the previous one is over", "[chaos]") {
  const auto job = small_job();
  auto wish = all_of_it();
  wish.roles = {role::supervisor};
  wish.kinds = {fault_kind::pause};
  wish.count = 3;
  wish.suspicion = 10;
  wish.step_seconds = 0.1;
  for (const auto& all = plan_of(wish, job);
       const auto& x : all)  // 3 s are 30 steps; 10 more follow
    for (const auto& other : all)
      CHECK((x.run != other.run || x.step <= other.step || x.step >= other.step + 40));
  wish.step_seconds = 0.01;
  std::set<std::uint64_t> runs;
  for (const auto& x : plan_of(wish, job))
    CHECK(runs.insert(x.run).second);
  wish.roles = {role::loader};
  wish.kinds = {fault_kind::hang};
  wish.step_seconds = 0;
  runs.clear();
  for (const auto& x : plan_of(wish, job))  // the time of detection is unknown
    CHECK(runs.insert(x.run).second);
}

TEST_CASE("over several hosts no fault kills the nodes of all hosts at once", "[chaos]") {
  auto wish = all_of_it();
  wish.over_hosts = true;
  bool others = false;
  for (const auto& x : plan_of_all(wish, small_job())) {
    const bool on_all
        = x.who == role::keeper || x.who == role::shard_writer || x.who == role::loader;
    CHECK_FALSE((on_all && row_of(x.kind).ends_process));
    others = others || on_all;
  }
  CHECK(others);
  wish.kinds = {fault_kind::sigkill};
  wish.roles = {role::keeper};
  CHECK_THROWS_WITH(plan_of(wish, small_job()),
                    Catch::Matchers::ContainsSubstring("nodes of all hosts would end at once"));
}

TEST_CASE("a fault during restore is planned with another death before it", "[chaos]") {
  auto wish = all_of_it();
  wish.kinds = {fault_kind::sigkill};
  wish.roles = {role::lane};
  wish.moments = {"restore"};
  wish.count = 1;
  const auto all = plan_of(wish, small_job());
  REQUIRE(all.front().plants.size() == 2);
  CHECK(all.front().plants[0].ends_with(":restore:kill"));
  CHECK(all.front().plants[1].ends_with(":decided"));
}

TEST_CASE("faults at a snapshot hit workers that contribute to the checkpoint", "[chaos]") {
  auto job = small_job();
  auto wish = all_of_it();
  wish.moments = {"snapshot"};
  wish.roles = {role::lane, role::stage, role::replica};
  const auto of_second = [&] {
    const auto all = plan_of_all(wish, job);
    REQUIRE(all.size() > 10);
    return std::count_if(all.begin(), all.end(), [](const disturbance& x) {
      return x.actor[x.actor.find(':') + 1] == '1';
    });
  };
  CHECK(of_second() == 0);
  job.reduction.distributed_optimizer = true;
  CHECK(of_second() > 0);
}

TEST_CASE("a wish that allows no fault is refused", "[chaos]") {
  const auto job = small_job();
  auto wish = all_of_it();
  wish.kinds = {fault_kind::link_down};
  CHECK_THROWS_AS(plan_of(wish, job), usage_error);
  wish = all_of_it();
  wish.every = 1000;
  CHECK_THROWS_AS(plan_of(wish, job), usage_error);
  wish = all_of_it();
  wish.roles = {role::lane};
  wish.moments = {"validate"};  // the job has none
  CHECK_THROWS_AS(plan_of(wish, job), usage_error);
}

TEST_CASE("a moment that comes too late in the job does not refuse the others", "[chaos]") {
  const auto job = small_job();
  auto wish = all_of_it();
  wish.kinds = {fault_kind::sigkill};
  wish.roles = {role::lane, role::checkpointer};
  wish.save_every = 95;  // the run has 100 steps, and the last ones must have no fault
  for (const auto& all : {plan_of(wish, job), plan_of_all(wish, job)})
    for (const auto& x : all)
      CHECK((x.moment != "save" && x.moment != "snapshot"));
  wish.save_every = 90;
  wish.moments = {"save"};
  wish.count = 3;
  for (const auto& x : plan_of(wish, job))
    CHECK(x.step == 90);
  wish.first = 90;  // first step of the run
  wish.last = 150;
  CHECK_THROWS_WITH(plan_of(wish, job),
                    Catch::Matchers::ContainsSubstring("leave no possible fault"));
  wish.last = 95;
  CHECK_THROWS_WITH(plan_of(wish, job), Catch::Matchers::ContainsSubstring("too few"));
}

TEST_CASE("each run has at most one fault of the front", "[chaos]") {
  auto wish = all_of_it();
  wish.kinds = {fault_kind::sigkill};
  wish.roles = {role::front};
  wish.count = 3;
  std::set<std::uint64_t> runs;
  for (const auto& x : plan_of(wish, small_job()))
    CHECK(runs.insert(x.run).second);
}

TEST_CASE("percentiles are measured values", "[chaos]") {
  CHECK_FALSE(percentile({}, 50));
  CHECK(percentile({3}, 50) == 3);
  CHECK(percentile({4, 1, 3, 2}, 50) == 2);
  std::vector<double> hundred;
  for (int i = 1; i <= 100; ++i)
    hundred.push_back(i);
  CHECK(percentile(hundred, 99) == 99);
  CHECK(percentile(hundred, 100) == 100);
}

TEST_CASE("a report names the failed run and oracle, and the command that repeats it", "[chaos]") {
  chaos_report x{.command = {"train", "gpt"}, .seed = 3, .replay = "troupe chaos --seed 3"};
  x.step_seconds = 1;
  run_result run{.number = 2};
  struck_fault fault;
  fault.what = {.number = 5, .run = 2, .kind = fault_kind::sigkill, .who = role::node, .step = 9};
  fault.first_new = 4;
  run.faults.push_back(fault);
  x.runs.push_back(run);
  CHECK(x.holds());
  CHECK(effective_share(x, 60) == 60.0 / 63.0);
  CHECK(markdown_of(x).find("| node | ok |") != std::string::npos);
  CHECK(summary_of(x).find("no effect") == std::string::npos);
  x.runs[0].log = {"iteration 3 stands twice"};
  x.runs[0].faults[0].wrong = {"CHAOS-4: replaced or lost: node-0"};
  CHECK_FALSE(x.holds());
  const auto json = json_of(x);
  CHECK(json["holds"] == false);
  CHECK(json["wrong"].size() == 2);
  CHECK(json["replay"] == "troupe chaos --seed 3");
  CHECK(json["faults"][0]["first_new_step"] == 4);
  CHECK(json["faults"][0]["detect"].is_null());
  CHECK(json["runs"][0]["oracles"]["log"].size() == 1);
  CHECK(markdown_of(x).find("**FAIL**") != std::string::npos);
}

TEST_CASE("a report names survivors and faults without effect", "[chaos]") {
  chaos_report x{.command = {"train", "gpt"}, .seed = 3, .replay = "troupe chaos --seed 3"};
  run_result run{.number = 1};
  struck_fault fault;
  fault.what = {.kind = fault_kind::out_of_memory, .who = role::node, .step = 9};
  fault.victim = "node-1";
  fault.survivors = {"front", "node-0"};
  fault.replaced_ones = {"node-1"};
  run.faults.push_back(fault);
  x.runs.push_back(run);
  CHECK(table_row(fault).find("replaced node-1, 2 kept (front, node-0)") != std::string::npos);
  const auto one = json_of(x)["faults"][0];
  CHECK(one["survivors"]["count"] == 2);
  CHECK(one["survivors"]["processes"] == std::vector<std::string>{"front", "node-0"});
  CHECK((one["had_effect"] == true && one["processes_seen"] == true));
  auto unseen = fault;
  unseen.processes_seen = false;
  CHECK(table_row(unseen).find("2 kept (front, node-0); struck before") != std::string::npos);
  auto& idle = x.runs[0].faults[0];
  idle.had_effect = false;
  idle.replaced_ones.clear();
  CHECK(x.holds());
  CHECK(json_of(x)["without_effect"] == 1);
  CHECK(table_row(idle).find("no effect, 2 kept") != std::string::npos);
  CHECK(summary_of(x).find("1 had no effect") != std::string::npos);
  CHECK(markdown_of(x).find("| node | no effect |") != std::string::npos);
  x.runs[0].faults.push_back(fault);  // same kind, with an effect
  CHECK(markdown_of(x).find("| node | ok |") != std::string::npos);
}
