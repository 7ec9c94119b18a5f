// How a supervisor of several processes ends: one cannot be had, or it is asked to. The test plays
// agent and nodes.

#include "tests/support/supervised_processes.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using messages::ec;
using tests::first_generation;
using tests::supervised_processes;

TEST_CASE("a process that cannot be ends the run with the agent's reason", "[actors]") {
  supervised_processes it;
  it.system.tell(it.supervisor,
                 messages::process_started{.generation = first_generation,
                                           .process = 0,
                                           .refusal = "host-1 has no place for process 0"});
  CHECK(it.end->is(ec::refused));
  CHECK_THAT(it.end->text(), ContainsSubstring("host-1 has no place for process 0"));
}

TEST_CASE("asked to end before all processes stand a supervisor waits for nobody", "[actors]") {
  supervised_processes it;
  it.come(0);
  it.system.tell(it.supervisor, messages::drain{"SIGINT"});
  CHECK(it.end->has_come());
  CHECK_FALSE(it.end->is(ec::refused));
  CHECK(it.nodes[0].shut_down);
  CHECK(it.nodes[2].shut_down);
  CHECK(it.nodes[0].replicas.empty());
}

TEST_CASE("asked to end while a dead process is started again a supervisor waits for it",
          "[actors]") {
  supervised_processes it;
  it.begin();
  it.commit_first();
  it.keep(1);
  it.nodes[0].own = it.nodes[0].kept = {0, 1};
  it.system.tell(it.supervisor,
                 messages::process_died{first_generation, 1, 1, "killed by signal 9"});
  it.system.tell(it.supervisor, messages::drain{"SIGINT"});
  CHECK_FALSE(it.end->has_come());
  CHECK_FALSE(it.nodes[2].shut_down);
}

TEST_CASE(
    "a monitor that hangs when the run ends is replaced and the next one writes the last lines",
    "[actors]") {
  // The second one hangs as well: the log is given up, the run ends all the same.
  const int hanging = GENERATE(0, 1, 2);
  supervised_processes it;
  it.hanging_monitors = hanging;
  it.begin();
  it.commit_first();
  it.keep(1);
  it.system.tell(it.supervisor, messages::drain{"SIGINT"});
  it.vote(2);  // which had begun
  it.apply(2);
  it.keep(2);
  for (int waited = 0; waited < hanging; ++waited) {
    CHECK(it.monitors == 1 + waited);
    CHECK_FALSE(it.nodes[2].shut_down);
    it.system.advance(std::chrono::seconds(6));
  }
  CHECK(it.monitors == (hanging == 0 ? 1 : 2));
  CHECK(it.nodes[2].shut_down);
  CHECK_FALSE(it.end->is(ec::protocol_violated));
}
