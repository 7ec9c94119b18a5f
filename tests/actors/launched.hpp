// A launcher with host agents; their processes only sleep or end. The test plays the supervisor and
// those processes.

#pragma once

#include "actors/process/control_plane.hpp"
#include "actors/process/launcher.hpp"
#include "actors/process/standing_node.hpp"
#include "messages/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/job/build.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/host_agent.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/run_succession.hpp"
#include "tests/support/deterministic.hpp"
#include "tests/support/places.hpp"
#include "tests/support/soon.hpp"

#include <caf/scoped_actor.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::tests {

/// Writes its pid to the run's folder; the rename makes it visible as a whole.
inline constexpr const char* sleeps = "echo $$ > pid.new; mv pid.new pid; exec sleep 1000";

inline constexpr auto patience = std::chrono::seconds(60);  // reached by a hang only

/// Standing nodes in this process, each with its own agent.
class stood_nodes {
 public:
  stood_nodes(caf::actor_system& system, int count, const std::vector<std::string>& command)
      : system_(system) {
    const auto player = bin_dir() + "/process_player";
    for (int n = 0; n < count; ++n) {
      folders_.push_back(runtime::held_run_folder::temporary("test", {"test"}));
      const auto run = folders_.back().path();
      all.push_back(
          system.spawn(actors::standing_node,
                       actors::standing_node_settings{
                           .run = run,
                           .address = "127.0.0.1",
                           .suspicion = 10,
                           .agent = {player, runtime::agent_word, "run", run.string(), "10000"},
                           .node = [command](const actors::node_program&) { return command; }}));
    }
  }
  ~stood_nodes() {
    caf::scoped_actor self(system_);
    for (const auto& node : all) {
      self->send(node, messages::shut_down{});
      self->wait_for(node);
    }
    all.clear();
  }
  stood_nodes(const stood_nodes&) = delete;
  stood_nodes& operator=(const stood_nodes&) = delete;

  std::vector<messages::standing_node_actor> all;

 private:
  caf::actor_system& system_;
  std::vector<runtime::held_run_folder> folders_;
};

/// A launcher under test. Without standing nodes its own agent starts the processes.
struct launched {
  explicit launched(const std::string& command,
                    int standing = 0,
                    bool refused = false,
                    bool succeeded = false,
                    std::function<void(launched&)> prepare = {}) {
    auto job = tiny_job(1, 2);
    job.layout.processes = 2;
    job.recovery.on = true;
    job.check_messages = false;  // the handle of a thread that plays an actor cannot be serialized
    prepared = without_threads(job);
    runtime::make_credentials(folder.credentials(), folder.record().id);
    config = actors::make_configuration(2, actors::control_settings{folder.credentials(), 10});
    system.emplace(*config);
    self.emplace(*system);
    connector = system->spawn([]() -> messages::connector_actor::behavior_type {
      return {[](const messages::connect_to&) { return messages::connected{}; },
              [](const messages::forget&) {}};
    });
    supervisor = caf::actor_cast<messages::supervisor_actor>(self->ptr());
    const auto in_folder = "cd '" + folder.path().string() + "'; " + command;
    const auto player = bin_dir() + "/process_player";
    const std::vector<std::string> whole{"/bin/sh", "-c", in_folder};
    settings = actors::launch_settings{
        .run = folder.path(),
        .agent = {player, runtime::agent_word, "run", folder.path().string(), "10000"},
        .node = [whole](const actors::node_program&) { return whole; }};
    if (succeeded)
      settings.successor = {"/bin/true"};
    nodes.emplace(*system, standing, whole);
    for (int n = 0; n < standing; ++n)
      settings.standing.push_back({"host-" + std::to_string(n) + ":7000"});
    hosts = nodes->all;
    if (refused) {
      settings.standing.push_back({"host-of-yesterday:7000"});
      hosts.push_back(refusing());
    }
    if (prepare)
      prepare(*this);
    launch();
  }
  void launch() {
    launcher = system->spawn(actors::launcher,
                             settings,
                             prepared->description,
                             std::shared_ptr<const actors::node_context>(prepared->node),
                             hosts);
  }
  /// Replaces the launcher, as after a kill of its process; `lost`: the host that died with it.
  void succeed(int lost = -1) {
    (*self)->send_exit(launcher, caf::exit_reason::kill);
    (*self)->wait_for(launcher);
    ++settings.incarnation;
    if (lost >= 0)
      hosts[std::size_t(lost)] = nullptr;
    launch();
  }
  messages::standing_node_actor refusing() {
    return system->spawn([]() -> messages::standing_node_actor::behavior_type {
      return {[](const messages::serve& x) -> caf::result<messages::serving> {
                CHECK(x.places.empty());
                return messages::make_error(messages::ec::refused, "its program is of yesterday");
              },
              [](const messages::start_node&) {},
              [](const messages::kill_node&) {},
              [](const messages::kill_agent&) {},
              [](const messages::dismiss&) {},
              [](const messages::agent_told&) {},
              [](const messages::hold_is_over&) {},
              [](const messages::keep_run&) {},
              [](const messages::keep_ledger&) { return messages::ledger_kept(); },
              [](const messages::succeed_here&) {},
              [](const messages::successor_ended&) {},
              [](const messages::shut_down&) {}};
    });
  }
  ~launched() {
    for (int n = 0; n < 2; ++n)  // the second request kills the remaining processes
      (*self)->send(launcher, messages::shut_down{in(9)});
    (*self)->wait_for(launcher);
    launcher = nullptr;
    nodes.reset();
    supervisor = nullptr;
    (*self)->send_exit(connector, caf::exit_reason::kill);
    connector = nullptr;
    self.reset();
  }
  launched(const launched&) = delete;
  launched& operator=(const launched&) = delete;

  static runtime::generation_id in(std::uint64_t number) {
    return runtime::make_generation(1, number);
  }
  void want(std::uint64_t number = 1, bool elsewhere = false) {
    (*self)->send(launcher, messages::start_process{in(number), 0, supervisor, elsewhere});
  }
  template <class Told>
  std::optional<Told> told() {
    std::optional<Told> out;
    (*self)->receive([&](const Told& x) { out = x; }, caf::after(patience) >> [] {});
    return out;
  }
  /// The refusal of a process that asks for the job; empty: admitted.
  std::string join(const messages::join& x) {
    std::string out;
    (*self)
        ->request(launcher, patience, x)
        .receive([](const messages::admitted&) {},
                 [&](const caf::error& why) { out = messages::text_of(why); });
    return out;
  }
  /// The pid that the sleeping process wrote.
  std::int64_t pid() {
    const auto file = folder.path() / "pid";
    if (!soon([&] { return std::filesystem::exists(file); }))
      return 0;
    const auto out = std::stoll(runtime::read_text(file));
    std::filesystem::remove(file);
    return out;
  }
  std::int64_t stand(std::uint32_t incarnation) {
    const auto id = pid();
    CHECK_FALSE(come(incarnation, id));
    return id;
  }
  /// Joins; returns whether an earlier launcher had started the process.
  bool come(std::uint32_t incarnation, std::int64_t pid) {
    REQUIRE(join({.who = {0, incarnation},
                  .program = runtime::version_text(),
                  .host = "here",
                  .pid = pid})
                .empty());
    (*self)->send(launcher,
                  messages::present{
                      {.who = {0, incarnation}, .host = "127.0.0.1", .port = 1}, {}, connector});
    const auto started = told<messages::process_started>();
    REQUIRE(started);
    CHECK(started->refusal.empty());
    CHECK(started->incarnation == incarnation);
    CHECK(started->host == "here");
    CHECK(started->connector == connector);
    CHECK(started->where.port == 1);
    return started->lived;
  }

  runtime::held_run_folder folder = runtime::held_run_folder::temporary("test", {"test"});
  std::shared_ptr<actors::prepared_job> prepared;
  std::unique_ptr<caf::actor_system_config> config;
  std::optional<caf::actor_system> system;
  std::optional<caf::scoped_actor> self;
  std::optional<stood_nodes> nodes;
  messages::connector_actor connector;
  messages::supervisor_actor supervisor;
  messages::launcher_actor launcher;
  actors::launch_settings settings;
  std::vector<messages::standing_node_actor> hosts;
};

}  // namespace troupe::tests
