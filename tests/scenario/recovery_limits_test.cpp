// Repeated and special failures: during recovery, by hangs, by wrong bits, again and again.

#include "tests/support/recovered_job.hpp"

#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <mutex>
#include <string>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using tests::arrangement;

namespace {

arrangement with(const std::function<void(runtime::training_job&)>& change) {
  auto what = tests::two_by_two();
  change(what.job);
  return what;
}

arrangement three_by_two() {
  auto job = tests::tiny_job(2, 3);
  job.training.batch.global = 12;
  return {"3x2", tests::watched_job(job)};
}

/// DualPipe: each of two ranks has a stage of both copies of the model.
void make_two_copies(runtime::training_job& job) {
  job.layout.schedule.source = "dualpipe";
  job.training.batch.micro = 1;
  job.training.batch.global = 16;
}

std::string why(const tests::lived& x, std::size_t event = 0) {
  REQUIRE(x.events.size() > event);
  return x.events[event]["why"];
}

/// Reports that a viewer received.
struct seen {
  std::mutex mutex;
  std::vector<std::uint64_t> steps, validations;
};

actors::make_viewer viewer(const std::shared_ptr<seen>& to) {
  return [to](caf::actor_system& home, const actors::drain_request&) {
    return home.spawn([to]() -> messages::viewer_actor::behavior_type {
      return {[to](const messages::committed& x) {
                const std::lock_guard lock(to->mutex);
                to->steps.push_back(x.report.iteration);
              },
              [to](const messages::validated& x) {
                const std::lock_guard lock(to->mutex);
                to->validations.push_back(x.report.iteration);
              }};
    });
  };
}

}  // namespace

TEST_CASE("a second death during recovery is recovered from, too", "[scenario][recovery]") {
  // These moments follow all votes, so step 3 is complete; otherwise the run could go back to step
  // 2.
  const std::string first = GENERATE("stage:0.1@4:decided", "lane:1.0@4:updated");
  const std::string second
      = GENERATE("lane:0.0", "stage:1.1", "replica:0", "supervisor", "node", "loader");
  CAPTURE(first, second);
  // Both recoveries go back to step 3 and compute step 4.
  tests::check_survives(tests::two_by_two(), first + "," + second + "@4:restore", 2);
}

TEST_CASE("two deaths at the same moment are repaired together", "[scenario][recovery]") {
  const std::string deaths = GENERATE("stage:0.1@4:forward,stage:1.0@4:forward",
                                      "lane:0.1@4:reduce,lane:1.1@4:reduce",
                                      "lane:0.0@4:updated,lane:1.1@4:updated",
                                      "replica:0@4:decided,lane:1.0@4:updated",
                                      "supervisor@4:decided,stage:0.0@4:decided",
                                      "node@4:acknowledged,loader@4:acknowledged");
  CAPTURE(deaths);
  const auto x = tests::live(tests::two_by_two(), deaths);
  tests::check_same(x, tests::two_by_two());
  // Both are repaired together if they are reported during the same generation.
  CHECK(x.restarts >= 1);
  CHECK(x.restarts <= 2);
}

TEST_CASE("deaths in successive steps are each recovered from", "[scenario][recovery]") {
  const auto x = tests::check_survives(
      tests::two_by_two(),
      "lane:0.0@2:reduce,supervisor@3:vote,stage:1.1@4:forward,node@5:decided,lane:1.0@6:updated",
      5);
  CHECK(x.restarts == 5);
}

TEST_CASE("a hung lane counts as dead and is replaced", "[scenario][recovery]") {
  const auto what = with([](auto& job) { job.recovery.suspicion = 0.3; });
  const std::string where
      = GENERATE("lane:0.1@4:forward", "lane:1.0@3:weight-gradient", "lane:0.0@5:updated");
  CAPTURE(where);
  const auto x = tests::check_survives(what, where + ":hang");
  CHECK_THAT(why(x), ContainsSubstring(where.substr(0, where.find('@')).replace(0, 4, "stage")));
  CHECK(x.events[0]["seconds"] < 30.0);
}

TEST_CASE("STEP-2: a wrong bit in a reduced gradient is found, and the step runs again",
          "[scenario][recovery]") {
  const std::string who = GENERATE("lane:0.1", "lane:1.0");
  CAPTURE(who);
  const auto x = tests::check_survives(tests::two_by_two(), who + "@4:reduce:wrong-bits");
  CHECK_THAT(why(x), ContainsSubstring("STEP-2"));
  CHECK(x.events[0]["resumed_from"] == 3);
}

TEST_CASE("STEP-5, STEP-6: a wrong bit in an updated state is found, and the step runs again",
          "[scenario][recovery]") {
  const std::string who = GENERATE("lane:0.1", "lane:1.1", "lane:1.0");
  const std::string how = GENERATE("wrong-bits", "wrong-moment", "wrong-second-moment");
  CAPTURE(who, how);
  const auto x = tests::check_survives(tests::two_by_two(), who + "@4:updated:" + how);
  // The last stage also has the first stage's embedding: there STEP-6 is checked first.
  if (who == "lane:1.0")
    CHECK_THAT(why(x), ContainsSubstring("STEP-5") || ContainsSubstring("STEP-6"));
  else
    CHECK_THAT(why(x), ContainsSubstring("STEP-5"));
  CHECK(x.events[0]["resumed_from"] == 3);
}

TEST_CASE("VERIFY-1: the one of three replicas with wrong bits is named at once",
          "[scenario][recovery]") {
  const std::string at = GENERATE("lane:2.1@4:reduce", "lane:0.0@4:updated", "lane:1.0@3:reduce");
  CAPTURE(at);
  const auto x = tests::check_survives(three_by_two(), at + ":wrong-bits");
  REQUIRE(x.events.size() == 2);
  CHECK(x.events[0]["event"] == "wrong bits");
  CHECK(x.events[0]["verdict"] == "outvoted");
  CHECK(x.events[0]["who"] == "stage" + at.substr(4, 4));
  // A gradient of 0 can keep the square 0 after the bit flip: then no parameter is named.
  const bool is_named = at.ends_with("updated");
  CHECK_THAT(why(x), ContainsSubstring(is_named ? "than the 2 other ranks (" : "than the 2 other"));
}

TEST_CASE("VERIFY-1: the one of two replicas with wrong bits is named after the repeated step",
          "[scenario][recovery]") {
  const std::string who = GENERATE("lane:0.1", "lane:1.0");
  const std::string at = GENERATE("reduce", "updated");
  CAPTURE(who, at);
  const auto x = tests::check_survives(tests::two_by_two(), who + "@4:" + at + ":wrong-bits");
  REQUIRE(x.events.size() == 2);
  CHECK(x.events[1]["event"] == "wrong bits");
  CHECK(x.events[1]["verdict"] == "transient");
  CHECK(x.events[1]["who"] == "stage" + who.substr(4));
  // A gradient of 0 can keep the square 0 after the bit flip: then no parameter is named.
  CHECK_THAT(why(x, 1), ContainsSubstring(at == "updated" ? "of step 4 (" : "of step 4"));
}

TEST_CASE("VERIFY-1: bits that are wrong again in the repeated step are reported as persistent",
          "[scenario][recovery]") {
  const std::string death = "lane:1.0@4:reduce:wrong-bits";
  const auto x = tests::check_survives(tests::two_by_two(), death + "," + death, 2);
  REQUIRE(x.events.size() == 3);
  CHECK(x.events[2]["event"] == "wrong bits");
  CHECK(x.events[2]["verdict"] == "persistent");
  CHECK(x.events[2]["who"] == "stage:1.0");
}

TEST_CASE("without recovery wrong bits end the run, and a majority names the guilty replica",
          "[scenario][recovery]") {
  auto what = three_by_two();
  what.job.recovery.on = false;
  const auto x = tests::live(what, "lane:1.0@4:reduce:wrong-bits");
  CHECK(x.end.exit_code == 3);
  CHECK_THAT(
      x.end.reason,
      ContainsSubstring("STEP-2")
          && ContainsSubstring("stage:1.0 has other reduced gradients of step 4 than the 2"));
  CHECK(x.iterations == std::vector<std::uint64_t>{1, 2, 3});
}

TEST_CASE("VERIFY-2: a wrong pass is found by its recomputation", "[scenario][recovery]") {
  const std::string at = GENERATE("lane:0.1@4:forward",
                                  "lane:1.0@4:forward",
                                  "lane:0.1@3:input-gradient",
                                  "lane:0.1@4:weight-gradient",
                                  "lane:1.0@4:weight-gradient");
  const int replicas = GENERATE(1, 2, 3);
  if (at.starts_with("lane:1") && replicas == 1)
    return;
  CAPTURE(at, replicas);
  auto what = replicas == 3 ? three_by_two() : tests::two_by_two();
  if (replicas == 1)
    what = {"1x2", tests::watched_job(tests::tiny_job(2, 1))};
  const auto calm = tests::undisturbed(what);
  what.job.recovery.verify_fraction = 1;
  const auto x = tests::live(what, at + ":wrong-bits");
  CHECK(tests::look_at_whole(x, what.job) == tests::sentences{});
  CHECK(tests::look_at_same(x, calm) == tests::sentences{});
  CHECK(x.restarts == 1);
  REQUIRE(x.events.size() == 2);
  CHECK_THAT(why(x), ContainsSubstring("VERIFY-2"));
  CHECK(x.events[1]["event"] == "wrong bits");
  CHECK(x.events[1]["verdict"] == "transient");
  CHECK(x.events[1]["who"] == "stage" + at.substr(4, 4));
  CHECK_THAT(why(x, 1),
             ContainsSubstring(at.ends_with("forward")          ? "wrong output of"
                               : at.ends_with("input-gradient") ? "wrong input gradient of"
                                                                : "wrong weight gradients of"));
}

TEST_CASE("VERIFY-2: a wrong weight gradient is found in any layout",
          "[scenario][recovery][unsanitized]") {
  const std::string name = GENERATE(
      "one stage", "recomputed", "zb-h1", "two copies", "tensor", "in turn", "overlapped");
  CAPTURE(name);
  auto job = tests::tiny_job(name == "one stage" ? 1 : 2, 2, name == "tensor" ? 2 : 1);
  if (name == "recomputed")
    job.recompute.granularity = runtime::recompute_granularity::full;
  else if (name == "zb-h1")
    job.layout.schedule.source = "zb-h1";
  else if (name == "two copies")
    make_two_copies(job);
  else if (name == "in turn")
    tests::play_in_turn(job, 2);
  else if (name == "overlapped")
    job.reduction = {.distributed_optimizer = true,
                     .bucket_size = 4096,
                     .overlap_gradients = true,
                     .overlap_parameters = true,
                     .grain = 256};
  arrangement what{"wrong weight gradients " + name, tests::watched_job(job)};
  const auto calm = tests::undisturbed(what);
  what.job.recovery.verify_fraction = 1;
  const auto x = tests::live(what, "lane:0.0@4:weight-gradient:wrong-bits");
  CHECK(tests::look_at_whole(x, what.job) == tests::sentences{});
  CHECK(tests::look_at_same(x, calm) == tests::sentences{});
  REQUIRE(x.events.size() == 2);
  CHECK(x.events[1]["verdict"] == "transient");
  CHECK(std::string(x.events[1]["who"]).starts_with("stage:0.0"));
  CHECK_THAT(why(x, 1), ContainsSubstring("wrong weight gradients of"));
}

TEST_CASE("VERIFY-2: verification does not change the bits", "[scenario][recovery][unsanitized]") {
  const double fraction = GENERATE(0.3, 1.0);
  const std::string name = GENERATE("2x2",
                                    "tensor",
                                    "recomputed",
                                    "zb-h1",
                                    "alone",
                                    "in turn",
                                    "overlapped",
                                    "bf16",
                                    "two copies");
  CAPTURE(fraction, name);
  auto job = tests::tiny_job(2, 2);
  if (name == "tensor") {
    job = tests::tiny_job(2, 2, 2);
    job.layout.sequence_parallel = true;
  } else if (name == "recomputed") {
    job.recompute.granularity = runtime::recompute_granularity::full;
  } else if (name == "zb-h1") {
    job.layout.schedule.source = "zb-h1";
  } else if (name == "alone") {
    job = tests::tiny_job(1, 1);
  } else if (name == "in turn") {
    tests::play_in_turn(job, 2);
  } else if (name == "overlapped") {
    job.reduction = {.distributed_optimizer = true,
                     .bucket_size = 4096,
                     .overlap_gradients = true,
                     .overlap_parameters = true,
                     .grain = 256};
  } else if (name == "bf16") {
    job.training.precision = runtime::dtype::bf16;
  } else if (name == "two copies") {
    make_two_copies(job);
  }
  arrangement what{"verified " + name, tests::watched_job(job)};
  const auto& calm = tests::undisturbed(what);
  what.job.recovery.verify_fraction = fraction;
  const auto x = tests::live(what);
  CHECK(tests::look_at_whole(x, what.job) == tests::sentences{});
  CHECK(tests::look_at_same(x, calm) == tests::sentences{});
  CHECK(x.events.empty());
  CHECK(x.restarts == 0);
}

// The cause "input" is tested in command/stragglers_input, with a loader for each worker. A shared
// loader is asked a step ahead, and on a busy machine another worker waits in each step.
TEST_CASE("STRAGGLER-1: a slow worker is reported as slow in computing or in its link",
          "[scenario][recovery]") {
  const auto [planted, who, cause] = GENERATE(table<std::string, std::string, std::string>(
      {{"lane:1.0@2:forward:slow", "stage:1.0", "compute"},
       {"lane:0.1@2:redeem:slow", "stage:0.1", "link"}}));
  CAPTURE(planted);
  const auto what = with([](auto& job) { job.watch.straggler_ratio = 1.5; });
  bool named = false;
  for (int tries = 0; tries < 5 && !named; ++tries) {  // on a busy machine others can be slow, too
    const auto x = tests::live(what, planted);
    tests::check_same(x, what);
    CHECK(x.restarts == 0);
    for (const auto& event : x.events) {
      CHECK(event["event"] == "straggler");
      named = named
              || (event["verdict"] == cause
                  && std::string(event["who"]).find(who) != std::string::npos);
    }
  }
  CHECK(named);
}

TEST_CASE("STRAGGLER-1: a tensor rank that waits for a slow one is not slow",
          "[scenario][recovery]") {
  arrangement what{"1x2x2", tests::watched_job(tests::tiny_job(1, 2, 2))};
  tests::undisturbed(what);
  what.job.watch.straggler_ratio = 1.5;
  bool alone = false;
  for (int tries = 0; tries < 5 && !alone; ++tries) {  // on a busy machine others can be slow, too
    const auto x = tests::live(what, "lane:1.0.0@2:forward:slow");
    tests::check_same(x, what);
    const auto is_named = [&](const char* who) {
      return std::ranges::any_of(x.events, [&](const auto& event) {
        return event["event"] == "straggler" && event["verdict"] == "compute"
               && std::string(event["who"]).find(who) != std::string::npos;
      });
    };
    alone = is_named("stage:1.0.0") && !is_named("stage:1.0.1");
  }
  CHECK(alone);
}

TEST_CASE("MEMBER-5: a persistent failure ends the run, with the first cause",
          "[scenario][recovery]") {
  const auto x = tests::live(with([](auto& job) { job.faults.fault = "stage:0.1@4"; }));
  CHECK(x.end.exit_code == 3);
  CHECK_THAT(x.end.reason, ContainsSubstring("stage:0.1: the fault injected for stage:0.1@4"));
  CHECK_THAT(x.end.reason, ContainsSubstring("the cause persists"));
  CHECK(x.restarts == 4);
  CHECK(x.iterations == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(x.leased == 0);
  CHECK(x.saved == 2);
}

TEST_CASE("MEMBER-5: after three failures the run continues from the newest checkpoint",
          "[scenario][recovery]") {
  // Each death is in the same replica and prevents the next, so no two have the same generation.
  // Saving 4 waits until 2 is saved, so there is a checkpoint at step 5.
  const auto x = tests::live(tests::two_by_two(),
                             "stage:1.1@5:forward,lane:1.0@5:reduce,replica:1@5:decided");
  tests::check_same(x, tests::two_by_two());
  REQUIRE(x.events.size() == 3);
  CHECK(x.events[0]["state_from"] == "estate");
  CHECK(x.events[1]["state_from"] == "estate");
  CHECK(x.events[2]["state_from"] == "disk");
  CHECK((x.events[2]["resumed_from"] == 2 || x.events[2]["resumed_from"] == 4));
}

TEST_CASE("MEMBER-5: more restarts than allowed in a window end the run", "[scenario][recovery]") {
  const std::string deaths = "stage:0.1@2:forward,lane:1.0@4:reduce";
  const int most = GENERATE(0, 1, 2);
  CAPTURE(most);
  const auto x = tests::live(with([&](auto& job) { job.recovery.max_restarts = most; }), deaths);
  if (most == 2)
    return tests::check_same(x, tests::two_by_two());
  CHECK(x.end.exit_code == 3);
  CHECK_THAT(x.end.reason,
             ContainsSubstring("are more than `recovery.max_restarts` " + std::to_string(most)));
  CHECK_THAT(
      x.end.reason,
      ContainsSubstring(most == 0 ? "planted for stage:0.1@2" : "planted for lane:1.0@4:reduce"));
  CHECK(x.iterations.size() == (most == 0 ? 1 : 3));
}

TEST_CASE("without recovery a death ends the run with its cause", "[scenario][recovery]") {
  const auto x = tests::live(with([](auto& job) { job.recovery.on = false; }), "lane:0.1@4:reduce");
  CHECK(x.end.exit_code == 3);
  CHECK_THAT(x.end.reason,
             ContainsSubstring("replica:0: stage:0.1: ")
                 && ContainsSubstring("the death planted for lane:0.1@4:reduce"));
  CHECK(x.iterations == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(x.events.empty());
}

TEST_CASE("viewers get each step and each validation once, in spite of deaths",
          "[scenario][recovery]") {
  const std::string death = GENERATE("supervisor@3:vote",
                                     "supervisor@4:acknowledged",
                                     "node@4:updated",
                                     "node@3:validate",
                                     "stage:0.1@4:acknowledged",
                                     "monitor@4:forward");
  CAPTURE(death);
  const auto told = std::make_shared<seen>();
  const auto x = tests::live(tests::two_by_two(), death, {viewer(told)});
  tests::check_same(x, tests::two_by_two());
  CHECK(told->steps == std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6});
  CHECK(told->validations == std::vector<std::uint64_t>{3, 6});
}

TEST_CASE("the log has each death with its cause and the state that the run continued from",
          "[scenario][recovery]") {
  const auto rank = tests::check_survives(tests::two_by_two(), "lane:0.1@4:updated");
  REQUIRE(rank.events.size() == 1);
  const auto& x = rank.events[0];
  CHECK(x["event"] == "restart");
  CHECK(x["iteration"] == 3);
  CHECK(x["who"] == "replica:0");
  CHECK_THAT(why(rank),
             ContainsSubstring("stage:0.1: ")
                 && ContainsSubstring("the death planted for lane:0.1@4:updated"));
  CHECK(x["state_from"] == "estate");
  CHECK(x["resumed_from"] == 3);
  CHECK(x["generation"] == 2);
  CHECK(x["seconds"] > 0.0);
  const auto service = tests::check_survives(tests::two_by_two(), "loader@4:forward");
  REQUIRE(service.events.size() == 1);
  CHECK(service.events[0]["event"] == "replaced");
  CHECK(service.events[0]["who"] == "loader");
  CHECK_FALSE(service.events[0].contains("resumed_from"));
}
