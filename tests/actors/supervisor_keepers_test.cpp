// Assignment of keepers after processes moved to other hosts. The test plays agent and nodes.

#include "actors/supervisor/supervisor.hpp"
#include "tests/support/branch_handlers.hpp"
#include "tests/support/deterministic.hpp"

#include <catch2/catch_test_macros.hpp>

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

using namespace troupe;
using tests::first_generation;

namespace {

constexpr int processes = 6;

struct played_node {
  messages::node_actor actor;
  std::vector<messages::spawn_replica> replicas;
  std::vector<messages::replica_actor> below;
  std::vector<int> keeps_for;
  messages::keeper_actor keeper;  ///< the newest
  /// Its answer at the end of a generation: the kept steps of each process.
  std::map<int, std::vector<std::uint64_t>> kept;
  bool has_state = true;
};

struct supervised {
  supervised() {
    auto job = tests::tiny_job(1, processes);
    job.training.batch.global = job.training.batch.micro * processes;
    job.recovery.on = true;
    job.layout.processes = processes;
    job.train_iterations = 3;
    prepared = tests::without_threads(job);
    prepared->node->agent = system.listener(agent);
    for (auto& x : nodes)
      play(x);
    supervisor = system.keep(
        system.home().spawn(actors::supervisor,
                            nodes[processes].actor,
                            prepared->description,
                            std::shared_ptr<const actors::node_context>(prepared->node),
                            messages::front_actor(),
                            actors::succession{}));
    end.emplace(supervisor);
    system.run();
  }

  void play(played_node& x) {
    x.actor = system.keep(system.home().spawn(
        [this, &x](messages::node_actor::pointer self) -> messages::node_actor::behavior_type {
          return tests::as_branch(
              x.below,

              [this](const messages::spawn_loader&) {
                return messages::loader_spawned{
                    system.keep(system.home().spawn([]() -> messages::loader_actor::behavior_type {
                      return {[](const messages::request_batch& b) {
                        return messages::batch_ready{b.at, {}};
                      }};
                    }))};
              },
              [this, &x](const messages::spawn_keeper& told) {
                x.keeps_for.push_back(told.process);
                x.keeper = system.listener(keepers.emplace_back());
                return messages::keeper_spawned{x.keeper};
              },
              [this](const messages::spawn_checkpointer&) {
                return messages::checkpointer_spawned{system.listener(saver)};
              },
              [](const messages::spawn_shard_writer&) { return messages::shard_writer_spawned{}; },
              [this](const messages::spawn_monitor&) {
                return messages::monitor_spawned{
                    system.keep(system.home().spawn([]() -> messages::monitor_actor::behavior_type {
                      return {[](const messages::committed&) {},
                              [](const messages::validated&) {},
                              [](const messages::happened&) {},
                              [](const messages::use_processes&) {},
                              [](const messages::sample_due&) {},
                              [](const messages::conclude& c) {
                                return messages::concluded{c.generation};
                              }};
                    }))};
              },
              [](const messages::spawn_viewer&) { return messages::viewer_spawned{}; },
              [this, &x](const messages::spawn_replica& told) {
                x.replicas.push_back(told);
                x.below = {system.listener(heard[std::size_t(told.replica)])};
                return messages::replica_spawned{x.below.front()};
              },
              [](const messages::spawn_stage&) { return messages::stage_spawned{}; },
              [&x](const messages::end_generation& told) {
                messages::generation_ended out{.last = told.last, .ranks = 1, .kept = x.kept};
                out.has_state = x.has_state;
                return out;
              },
              [](const messages::find_stored& told) {
                return messages::stored_found{told.generation, {}};
              },
              [](const messages::measure&) { return messages::measured{}; },
              [](const messages::look_again&) {},
              [](const messages::suspected&) {},
              [](const messages::all_restored&) {},
              [self](const messages::shut_down&) { self->quit(); });
        }));
  }

  void come(int process,
            const std::string& host,
            std::uint32_t incarnation = 1,
            const std::string& domain = {}) {
    system.tell(supervisor,
                messages::process_started{.generation = first_generation,
                                          .process = process,
                                          .incarnation = incarnation,
                                          .host = host,
                                          .domain = domain,
                                          .node = nodes[std::size_t(process)].actor});
  }
  /// All processes start in order, two per host, and the ranks are ready.
  void all_come(const std::array<std::string, 3>& domains = {}) {
    const std::array<std::string, 3> hosts = {"a", "b", "c"};
    for (int p = 0; p < processes; ++p)
      come(p, hosts[std::size_t(p / 2)], 1, domains[std::size_t(p / 2)]);
    for (int r = 0; r < processes; ++r)
      system.tell(supervisor, messages::ready{first_generation, r});
    for (int p = 0; p < processes; ++p) {
      system.tell(supervisor, messages::kept{first_generation, runtime::step_id(0), p});
      nodes[std::size_t(p)].kept[nodes[std::size_t(p)].keeps_for.back()] = {0};
    }
  }
  /// Loses both processes of one host; they start on the other two.
  void host_is_lost() {
    for (const int p : {2, 3}) {
      system.tell(supervisor, messages::process_died{first_generation, p, 1, "its host is gone"});
      nodes[std::size_t(p)].kept.clear();
      nodes[std::size_t(p)].has_state = false;
    }
    come(2, "a", 2);
    come(3, "c", 2);
  }

  tests::heard_by<messages::agent_actor> agent;
  std::array<tests::heard_by<messages::replica_actor>, processes> heard;
  std::deque<tests::heard_by<messages::keeper_actor>> keepers;
  tests::heard_by<messages::checkpointer_actor> saver;
  std::array<played_node, processes + 1> nodes;  ///< the last is the supervisor's
  tests::deterministic system;
  std::shared_ptr<actors::prepared_job> prepared;
  messages::supervisor_actor supervisor;
  std::optional<tests::ending> end;
};

}  // namespace

TEST_CASE(
    "KEEPER-3: after the loss of a host keepers are assigned again, and the old ones return states",
    "[actors]") {
  supervised it;
  it.all_come();
  // Kept on the next host: 0 in 2, 1 in 3, 2 in 4, 3 in 5, 4 in 0, 5 in 1.
  REQUIRE(it.prepared->node->ledger->keepers() == std::vector<int>{2, 3, 4, 5, 0, 1});
  it.host_is_lost();
  // Now a: 0, 1, 2; c: 3, 4, 5. Process 0 would be kept in 2, and 3 in 5: they swap keepers.
  const std::vector<int> after = {5, 3, 4, 2, 0, 1};
  CHECK(it.prepared->node->ledger->keepers() == after);
  std::vector<messages::hosting_process> told;  // each replica of its process
  for (std::size_t p = 0; p < processes; ++p) {
    REQUIRE(it.nodes[p].replicas.size() == 2);
    REQUIRE(it.nodes[p].replicas.back().processes.size() == 1);
    told.push_back(it.nodes[p].replicas.back().processes.front());
    CHECK(told.back().process == int(p));
  }
  for (std::size_t p = 0; p < processes; ++p) {
    const auto& keeps = it.nodes[std::size_t(after[p])];
    CHECK(keeps.keeps_for.back() == int(p));
    CHECK(told[p].keeper == keeps.keeper);
  }
  // The states of 2 and 3 are where they were kept: in 4, which still keeps them, and in 5, which
  // now keeps those of 0.
  for (const std::size_t p : {2, 3}) {
    CHECK(told[p].source
          == runtime::state_source{
              runtime::state_tier::keeper, runtime::step_id(0), std::int32_t(p + 2)});
    CHECK(told[p].holder == it.nodes[p + 2].keeper);
  }
  CHECK(it.nodes[4].keeps_for == std::vector<int>{2});
  CHECK(it.nodes[5].keeps_for == std::vector<int>{3, 0});
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("PLACE-3: the supervisor assigns keepers in other failure domains", "[actors]") {
  supervised it;
  it.all_come({"x", "y", "y"});
  // Rack y has most processes: only 2 and 3 are kept in rack x, and 4 and 5 on the other host of y.
  CHECK(it.prepared->node->ledger->keepers() == std::vector<int>{4, 5, 0, 1, 2, 3});
}

TEST_CASE("the death of a former keeper is reported to the process that fetches a state",
          "[actors]") {
  supervised it;
  it.all_come();
  it.host_is_lost();
  const auto was = it.nodes[5].keeper;
  it.system.kill(was, messages::make_error(messages::ec::protocol_violated, "keeper: it broke"));
  REQUIRE(it.nodes[5].keeper != was);
  std::vector<int> told;
  for (std::size_t replica = 0; replica < processes; ++replica)
    for (const auto& x : it.heard[replica].of<messages::use_keeper>()) {
      CHECK(x.process == int(replica));  // only the replicas with ranks there
      told.push_back(x.process);
      if (x.process == 3) {
        CHECK(x.holder == it.nodes[5].keeper);
        CHECK(x.keeper == it.nodes[2].keeper);
      } else {
        CHECK(x.keeper == it.nodes[5].keeper);
        CHECK_FALSE(x.holder);
      }
    }
  CHECK(told == std::vector<int>{0, 3});
  CHECK_FALSE(it.end->has_come());
}
