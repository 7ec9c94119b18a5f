// A front alone with a job: the supervisor that can end the run.

#include "actors/job/front.hpp"

#include "tests/support/deterministic.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

using namespace troupe;

TEST_CASE("FRONT-1: only the current supervisor ends the run", "[actors]") {
  tests::deterministic system;
  const auto prepared = tests::without_threads(tests::tiny_job(1, 1));
  std::optional<actors::outcome> end;
  const auto root = system.keep(system.home().spawn(
      actors::front,
      prepared->description,
      std::shared_ptr<const actors::node_context>(prepared->node),
      [&](const actors::outcome& x) { end = x; },
      std::nullopt));
  // A superseded supervisor that still runs.
  system.tell(root, messages::job_over{3, "reported by another process"});
  REQUIRE(end);
  CHECK(end->exit_code == 0);
  CHECK(end->reason.empty());
}

TEST_CASE("HANG-4: a front is on its process's board while it handles a message", "[actors]") {
  tests::deterministic system;
  auto job = tests::tiny_job(1, 1);
  job.recovery.on = true;
  const auto prepared = tests::without_threads(job);
  prepared->node->env.watches_lanes = true;
  std::vector<runtime::board_entry> seen;
  const auto root = system.keep(system.home().spawn(
      actors::front,
      prepared->description,
      std::shared_ptr<const actors::node_context>(prepared->node),
      [&](const actors::outcome&) {  // runs in the front; another thread looks
        const std::jthread looks([&] { seen = prepared->node->lanes->all(); });
      },
      std::nullopt));
  system.run();
  const auto its
      = std::find_if(seen.begin(), seen.end(), [](const auto& x) { return x.who == "front"; });
  REQUIRE(its != seen.end());
  CHECK(its->work == "down_msg");
  CHECK_FALSE(its->waits);
  CHECK(its->actor == root->id());
}
