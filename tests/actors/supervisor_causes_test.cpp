// A supervisor without recovery: it reports the cause, whatever it hears first.

#include "tests/support/supervised_processes.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>

using namespace troupe;
using Catch::Matchers::StartsWith;

TEST_CASE(
    "MEMBER-4: without recovery the lost process is reported, not the peer that noticed first",
    "[actors]") {
  using namespace std::chrono_literals;
  tests::supervised_processes it({}, 0, false, [](auto& job) {
    job.recovery.on = false;
    job.recovery.suspicion = 10;
  });
  it.begin();
  const bool is_told = GENERATE(true, false);
  it.system.kill(it.loaders[0],
                 messages::make_error(messages::ec::peer_lost, "loader:0: its peer is gone"));
  it.system.advance(5ms);
  if (is_told)
    it.system.kill(it.nodes[1].actor, caf::make_error(caf::exit_reason::remote_link_unreachable));
  CHECK_FALSE(it.end->has_come());
  it.system.advance(10s - 1ms);  // the node's death waits less long than its effects
  REQUIRE(it.end->has_come());
  CHECK_THAT(it.end->text(),
             StartsWith(is_told ? "process:1: its connection is gone" : "loader:0:"));
}
