// The failure detector finds the hung actor among its waiters; after its replacement the run gives
// the same result.

#include "runtime/core/log.hpp"
#include "tests/support/recovered_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using tests::arrangement;

namespace {

/// Long compared to a piece of work of a tiny job.
constexpr double suspicion = 0.5;

arrangement suspicious(bool distributed = false) {
  auto job = tests::tiny_job(2, 2);
  job.recovery.suspicion = suspicion;
  if (distributed)
    job.reduction = {.distributed_optimizer = true, .bucket_size = 4096, .grain = 256};
  auto what = arrangement{distributed ? "2x2 distributed" : "2x2", tests::watched_job(job)};
  what.job.recovery.suspicion = suspicion;
  return what;
}

/// The actor that was replaced first, and the reason.
std::string cause_of(const tests::lived& x) {
  REQUIRE_FALSE(x.events.empty());
  return std::string(x.events[0]["who"]) + ": " + std::string(x.events[0]["why"]);
}

}  // namespace

TEST_CASE("a hung lane is blamed, and not the lanes that wait for it in a collective",
          "[scenario][recovery]") {
  const std::string who = GENERATE("lane:1.0", "lane:0.1");
  CAPTURE(who);
  const auto x = tests::check_survives(suspicious(), who + "@4:reduce:hang");
  CHECK(x.restarts == 1);
  CHECK_THAT(cause_of(x), ContainsSubstring(who + " has shown no progress"));
}

TEST_CASE("a lane that hangs during the restore of a state is replaced", "[scenario][recovery]") {
  // The restore follows another death.
  const auto x
      = tests::check_survives(suspicious(), "stage:0.1@4:decided,lane:1.0@4:restore:hang", 2);
  CHECK(x.restarts == 2);
}

TEST_CASE("a stage that hangs in a handler is left behind", "[scenario][recovery]") {
  const std::string where = GENERATE("stage:0.1@4:forward",
                                     "stage:1.0@3:vote",
                                     "stage:0.0@4:decided",
                                     "stage:1.1@4:updated",
                                     "stage:0.1@5:acknowledged");
  CAPTURE(where);
  const auto x = tests::check_survives(suspicious(), where + ":hang");
  CHECK(x.restarts == 1);
  CHECK_THAT(cause_of(x),
             ContainsSubstring(where.substr(0, where.find('@')) + " has shown no progress"));
}

TEST_CASE("a replica that hangs in a handler is left behind", "[scenario][recovery]") {
  const std::string where
      = GENERATE("replica:0@4:forward", "replica:1@4:vote", "replica:0@4:updated");
  CAPTURE(where);
  const auto x = tests::check_survives(suspicious(), where + ":hang");
  CHECK(x.restarts == 1);
  CHECK_THAT(cause_of(x),
             ContainsSubstring(where.substr(0, where.find('@')) + " has shown no progress"));
}

TEST_CASE("a hung loader, checkpointer or monitor is replaced, and no step runs again",
          "[scenario][recovery]") {
  const bool distributed = GENERATE(false, true);
  const std::string where = GENERATE("loader@4:forward",
                                     "checkpointer@2:snapshot",
                                     "checkpointer@4:save",
                                     "monitor@3:acknowledged");
  CAPTURE(where, distributed);
  auto what = suspicious(distributed);
  const auto x = tests::check_survives(what, where + ":hang");
  CHECK(x.restarts == 1);
  CHECK_THAT(cause_of(x), ContainsSubstring(where.substr(0, where.find('@'))));
}

TEST_CASE("a second hung lane is replaced while the first is left behind", "[scenario][recovery]") {
  const std::string second
      = GENERATE("stage:1.0@5:forward:hang", "lane:1.0@5:updated:hang", "replica:1@5:vote:hang");
  CAPTURE(second);
  const auto x = tests::check_survives(suspicious(), "stage:0.1@3:forward:hang," + second, 2);
  CHECK(x.restarts == 2);
}

TEST_CASE("a hung supervisor gets a successor", "[scenario][recovery]") {
  const bool distributed = GENERATE(false, true);
  const std::string where = GENERATE("supervisor@1:restore",
                                     "supervisor@4:forward",
                                     "supervisor@4:vote",
                                     "supervisor@4:reduce",
                                     "supervisor@4:updated",
                                     "supervisor@5:acknowledged",
                                     "supervisor@4:snapshot",
                                     "supervisor@2:save",
                                     "supervisor@3:validate");
  CAPTURE(where, distributed);
  const auto x = tests::check_survives(suspicious(distributed), where + ":hang");
  CHECK(x.restarts == 1);
  CHECK_THAT(cause_of(x),
             ContainsSubstring(where.substr(0, where.find('@')) + " has shown no progress"));
}

TEST_CASE("a hung node gets a successor, and its actors end", "[scenario][recovery][unsanitized]") {
  const bool distributed = GENERATE(false, true);
  const std::string death
      = GENERATE("node@1:restore:hang", "node@4:reduce:hang", "node@2:save:hang");
  CAPTURE(death, distributed);
  auto what = suspicious(distributed);
  tests::make_time_for(runtime::planted_death_from(death), what.job);
  const auto x = tests::check_survives(what, death);
  CHECK(x.restarts == 1);
  CHECK_THAT(cause_of(x), ContainsSubstring("node has shown no progress"));
}

TEST_CASE("supervisors and nodes can hang one after the other", "[scenario][recovery]") {
  auto what = suspicious();
  tests::make_time_for(runtime::planted_death_from("node@1:forward:hang"), what.job);
  const auto x = tests::check_survives(what,
                                       "supervisor@1:vote:hang,node@2:forward:hang,"
                                       "supervisor@4:decided:hang,stage:0.1@5:acknowledged:hang",
                                       4);
  CHECK(x.restarts == 4);
}

TEST_CASE("as many hangs as restarts are survived, and one more is diagnosed",
          "[scenario][recovery]") {
  auto what = suspicious();
  what.job.recovery.max_restarts = 4;
  std::string all;
  for (int step = 1; step <= 5; ++step)
    all += (all.empty() ? "stage:0.0@" : ",stage:0.0@") + std::to_string(step) + ":vote:hang";
  const auto x = tests::live(what, all);
  CHECK(x.end.exit_code == 3);
  CHECK_THAT(x.end.reason, ContainsSubstring("more than `recovery.max_restarts` 4"));
}

TEST_CASE("a supervisor that waits for a long step or validation is not suspected",
          "[scenario][recovery]") {
  auto what = suspicious();
  what.job.watch.eval_batches = 8;
  what.job.faults.lane_delay_us = int(suspicion * 1e6 / 5);  // at each of many pieces of work
  const auto x = tests::live(what);
  CHECK(x.end.exit_code == 0);
  CHECK(x.restarts == 0);
  CHECK(x.events.empty());
}
