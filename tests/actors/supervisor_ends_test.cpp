// Ends of a supervisor of several processes: a failed start, or a request. The test plays agent and
// nodes.

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

TEST_CASE("a process that cannot start ends the run with the agent's reason", "[actors]") {
  supervised_processes it;
  it.system.tell(it.supervisor,
                 messages::process_started{.generation = first_generation,
                                           .process = 0,
                                           .refusal = "host-1 has no place for process 0"});
  CHECK(it.end->is(ec::refused));
  CHECK_THAT(it.end->text(), ContainsSubstring("host-1 has no place for process 0"));
}

TEST_CASE("a request to end before all processes are ready ends the run at once", "[actors]") {
  supervised_processes it;
  it.come(0);
  it.system.tell(it.supervisor, messages::drain{"SIGINT"});
  CHECK(it.end->has_come());
  CHECK_FALSE(it.end->is(ec::refused));
  CHECK(it.nodes[0].shut_down);
  CHECK(it.nodes[2].shut_down);
  CHECK(it.nodes[0].replicas.empty());
}

TEST_CASE("a request to end during a restart of a process waits for it", "[actors]") {
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
    "a monitor that hangs at the end of the run is replaced, and the next writes the last lines",
    "[actors]") {
  // If the second one hangs as well, the log is given up and the run still ends.
  const int hanging = GENERATE(0, 1, 2);
  supervised_processes it;
  it.hanging_monitors = hanging;
  it.begin();
  it.commit_first();
  it.keep(1);
  it.system.tell(it.supervisor, messages::drain{"SIGINT"});
  it.vote(2);  // it had begun
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

namespace {

/// Two processes: their loaders fail with unreadable data while the first checkpoint is in
/// progress. With recovery one of them fails after each replacement.
struct unreadable_run : supervised_processes {
  explicit unreadable_run(bool recovers)
      : supervised_processes("nowhere", 0, false, [recovers](runtime::training_job& job) {
          job.recovery.on = recovers;
        }) {
    begin();
    commit_first();
    keep(1);
    REQUIRE(saver.of<messages::save>().size() == 1);
    refuse(loaders[0]);
    for (int again = 0; recovers && again < 3; ++again)
      refuse(loaders.back());
    refuse(loaders[1]);
    CHECK_FALSE(end->has_come());
  }
  void refuse(const messages::loader_actor& x) {
    system.kill(x, messages::make_error(ec::refused, "loader: no data"));
  }
};

}  // namespace

TEST_CASE("unreadable data of several loaders do not abort a checkpoint in progress", "[actors]") {
  const bool recovers = GENERATE(false, true);
  unreadable_run it(recovers);
  const auto order = it.saver.of<messages::save>().front();
  it.system.tell(it.supervisor, messages::saved{order.generation, order.step, order.attempt});
  CHECK(it.end->is(ec::refused));
  CHECK_THAT(it.end->text(), ContainsSubstring("loader: no data"));
  CHECK(it.decisions() == 1);
}

TEST_CASE("a run that waits for its last checkpoint does not wait for dead processes", "[actors]") {
  unreadable_run it(true);
  it.nodes[0].own = it.nodes[0].kept = {0, 1};
  it.system.tell(it.supervisor,
                 messages::process_died{first_generation, 1, 1, "killed by signal 9"});
  CHECK(it.end->is(ec::refused));
  CHECK_THAT(it.end->text(), ContainsSubstring("loader: no data"));
}

TEST_CASE("a decided step is committed before a run with unreadable data ends", "[actors]") {
  supervised_processes it({}, 0, false, [](auto& job) { job.recovery.on = false; });
  it.begin();
  it.vote(1);
  REQUIRE(it.decisions() == 1);
  it.system.kill(it.loaders[0], messages::make_error(ec::refused, "loader: no data"));
  CHECK_FALSE(it.end->has_come());
  it.apply(1);
  it.keep(1);
  CHECK(it.end->is(ec::refused));
  CHECK(it.prepared->node->ledger->newest() == 1);
}
