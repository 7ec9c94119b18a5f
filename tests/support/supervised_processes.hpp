// Runs a supervisor with ranks in two other processes; the test plays the agent and the nodes.

#pragma once

#include "actors/supervisor/supervisor.hpp"
#include "tests/support/branch_handlers.hpp"
#include "tests/support/deterministic.hpp"

#include <caf/send.hpp>
#include <caf/typed_response_promise.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace troupe::tests {

/// One of three nodes: the supervisor's own, or one that hosts a replica.
struct played_node {
  messages::node_actor actor;
  std::vector<messages::spawn_replica> replicas;
  std::vector<messages::replica_actor> below;
  std::vector<messages::spawn_keeper> keepers;
  std::vector<messages::spawn_shard_writer> writers;
  messages::shard_writer_actor writer = {};
  int loaders = 0, checkpointers = 0;
  std::vector<runtime::generation_id> ended;
  std::vector<std::vector<int>> broken_with;  ///< one entry per ended generation
  bool shut_down = false;
  /// Its answers when a generation ends: its own steps, and those that it keeps for another
  /// process.
  std::vector<std::uint64_t> own = {}, kept = {};
  std::vector<messages::stored_states> stored = {};
  int looks = 0;
  int keeps_for = -1;
};

/// The connector of a process that hosts a replica.
struct played_connector {
  messages::connector_actor actor;
  std::vector<messages::connect_to> told;
  messages::connected answer = {};
  bool waits = false;  ///< answers when it is told `forget`
  caf::typed_response_promise<messages::connected> last = {};
};

struct supervised_processes {
  explicit supervised_processes(const std::filesystem::path& save = {},
                                std::uint64_t local_interval = 0,
                                bool is_cold = false,
                                const std::function<void(runtime::training_job&)>& change = {},
                                const std::function<void(actors::prepared_job&)>& prepare = {}) {
    auto job = tiny_job(1, 2);
    job.recovery.on = true;
    job.layout.processes = 2;
    job.train_iterations = 3;
    job.checkpoints.save = save;
    job.checkpoints.save_interval = 1;
    job.checkpoints.local_interval = local_interval;
    if (local_interval > 0)
      job.checkpoints.local_folder = "states";
    if (change)
      change(job);
    prepared = without_threads(job);
    prepared->node->agent = system.listener(agent);
    if (prepare)
      prepare(*prepared);
    if (is_cold)
      had_committed(2);
    for (auto& x : nodes)
      play(x);
    supervisor = system.keep(system.home().spawn(
        actors::supervisor,
        nodes[2].actor,
        prepared->description,
        std::shared_ptr<const actors::node_context>(prepared->node),
        messages::front_actor(),
        actors::succession{prepared->node->ledger->epoch(), "all died", is_cold}));
    end.emplace(supervisor);
    system.run();
  }

  /// Fills the ledger of a run after all its processes died; the last step but one is on local
  /// disks.
  void had_committed(std::uint64_t steps) {
    auto& ledger = *prepared->node->ledger;
    ledger.begin({});
    for (std::uint64_t n = 1; n <= steps; ++n) {
      const runtime::training_position at{.iteration = n, .consumed = 4 * n};
      if (n + 1 == steps)
        ledger.keep_position(at, true);
      ledger.commit({at, runtime::combine({{"w", {n, 7}}}), {}});
    }
    ledger.belongs_to(1);
  }

  void play(played_node& x) {
    x.actor = system.keep(system.home().spawn(
        [this, &x](messages::node_actor::pointer self) -> messages::node_actor::behavior_type {
          return as_branch(
              x.below,

              [this, &x](const messages::spawn_loader&) {
                ++x.loaders;
                return messages::loader_spawned{new_loader()};
              },
              [this, &x](const messages::spawn_keeper& told) {
                x.keepers.push_back(told);
                x.keeps_for = told.process;
                kept_of.push_back(told.process);
                keeper_handles.push_back(system.listener(keepers.emplace_back()));
                return messages::keeper_spawned{keeper_handles.back()};
              },
              [this, &x](const messages::spawn_checkpointer&) {
                ++x.checkpointers;
                return messages::checkpointer_spawned{system.listener(saver)};
              },
              [this, &x](const messages::spawn_shard_writer& told) {
                x.writers.push_back(told);
                return messages::shard_writer_spawned{x.writer = system.listener(writers)};
              },
              [this](const messages::spawn_monitor&) {
                return messages::monitor_spawned{new_monitor()};
              },
              [](const messages::spawn_viewer&) { return messages::viewer_spawned{}; },
              [this, &x](const messages::spawn_replica& told) {
                x.replicas.push_back(told);
                x.below = {system.listener(heard[std::size_t(told.replica)])};
                return messages::replica_spawned{x.below.front()};
              },
              [](const messages::spawn_stage&) { return messages::stage_spawned{}; },
              [&x](const messages::end_generation& told) {
                x.ended.push_back(told.last);
                x.broken_with.push_back(told.broken_with);
                messages::generation_ended out{.last = told.last, .ranks = 1};
                if (x.keeps_for >= 0)
                  out.kept[x.keeps_for] = x.kept;
                if (!x.own.empty()) {
                  out.has_state = true;
                  out.oldest = x.own.front();
                  out.newest = x.own.back();
                }
                return out;
              },
              [&x](const messages::find_stored& told) {
                ++x.looks;
                return messages::stored_found{told.generation, x.stored};
              },
              [](const messages::measure&) { return messages::measured{}; },
              [](const messages::look_again&) {},
              [](const messages::suspected&) {},
              [](const messages::all_restored&) {},
              [&x, self](const messages::shut_down&) {
                x.shut_down = true;
                self->quit();
              });
        }));
  }

  /// Without connectors, processes need no connections.
  void play_connectors() {
    for (auto& x : connectors)
      x.actor = system.keep(system.home().spawn([&x](messages::connector_actor::pointer self)
                                                    -> messages::connector_actor::behavior_type {
        return {[&x, self](const messages::connect_to& told) {
                  x.told.push_back(told);
                  x.last = self->make_response_promise<messages::connected>();
                  if (!x.waits)
                    x.last.deliver(x.answer);
                  return x.last;
                },
                [&x](const messages::forget&) { x.last.deliver(x.answer); }};
      }));
  }

  messages::loader_actor new_loader() {
    return loaders.emplace_back(
        system.keep(system.home().spawn([]() -> messages::loader_actor::behavior_type {
          return {[](const messages::request_batch& x) { return messages::batch_ready{x.at, {}}; }};
        })));
  }
  messages::monitor_actor new_monitor() {
    const bool hangs = ++monitors <= hanging_monitors;
    return system.keep(system.home().spawn([this, hangs](messages::monitor_actor::pointer self)
                                               -> messages::monitor_actor::behavior_type {
      return {[](const messages::committed&) {},
              [](const messages::validated&) {},
              [this](const messages::happened& x) { happened.push_back(x.event); },
              [](const messages::use_processes&) {},
              [](const messages::sample_due&) {},
              [self, hangs](const messages::conclude& x) {
                auto answer = self->make_response_promise<messages::concluded>();
                if (!hangs)
                  answer.deliver(messages::concluded{x.generation});
                return answer;
              }};
    }));
  }

  void come(int process, std::uint32_t incarnation = 1) {
    system.tell(supervisor,
                messages::process_started{
                    .generation = runtime::make_generation(prepared->node->ledger->epoch(), 1),
                    .process = process,
                    .incarnation = incarnation,
                    .host = "here",
                    .node = nodes[std::size_t(process)].actor,
                    .connector = connectors[std::size_t(process)].actor,
                    .where = {.who = {process, incarnation}, .host = "here", .port = 7}});
  }
  /// Starts both processes and their first generation.
  void begin() {
    for (const int process : {0, 1})
      come(process);
    run();
    keep(0);
  }
  /// Commits the first step; no keeper has it yet.
  void commit_first() {
    vote(1);
    apply(1);
  }
  void run(runtime::generation_id generation = first_generation) {
    for (int r = 0; r < 2; ++r)
      system.tell(supervisor, messages::ready{generation, r});
  }
  /// The branch of that process reports.
  void tell_kept(int process,
                 std::uint64_t step,
                 runtime::generation_id generation = first_generation,
                 messages::keeper_disk disk = {}) {
    disk.of = {{process, process + 1}};
    system.tell(supervisor,
                messages::kept{generation, runtime::step_id(step), process, {std::move(disk)}});
  }
  void keep(std::uint64_t step, runtime::generation_id generation = first_generation) {
    for (int p = 0; p < 2; ++p)
      tell_kept(p, step, generation);
  }
  void vote(std::uint64_t step, runtime::generation_id generation = first_generation) {
    for (int r = 0; r < 2; ++r)
      system.tell(supervisor,
                  messages::vote{.generation = generation,
                                 .step = runtime::step_id(step),
                                 .replica = r,
                                 .losses = {{2, 1}},
                                 .gradients = {{.rank = r}}});
  }
  void apply(std::uint64_t step, runtime::generation_id generation = first_generation) {
    for (int r = 0; r < 2; ++r)
      system.tell(supervisor,
                  messages::applied{.generation = generation,
                                    .step = runtime::step_id(step),
                                    .replica = r,
                                    .state = {{.rank = r, .own = {{"w", {step, 7}}}}}});
  }
  std::size_t decisions() { return heard[0].of<messages::decision>().size(); }

  heard_by<messages::agent_actor> agent;
  std::array<heard_by<messages::replica_actor>, 2> heard;
  std::deque<heard_by<messages::keeper_actor>> keepers;  ///< in the order of their spawning
  std::vector<messages::keeper_actor> keeper_handles;    ///< same order
  std::vector<messages::loader_actor> loaders;           ///< in the order of their spawning
  std::vector<int> kept_of;                              ///< the process that each keeper serves
  heard_by<messages::checkpointer_actor> saver;
  heard_by<messages::shard_writer_actor> writers;
  std::vector<runtime::run_event> happened;
  int monitors = 0;                  ///< number of spawned monitors
  int hanging_monitors = 0;          ///< the first so many never conclude
  std::array<played_node, 3> nodes;  ///< the last belongs to the supervisor
  deterministic system;
  std::array<played_connector, 2> connectors;  ///< ends first: it has a promise of an actor
  std::shared_ptr<actors::prepared_job> prepared;
  messages::supervisor_actor supervisor;
  std::optional<ending> end;
};

}  // namespace troupe::tests
