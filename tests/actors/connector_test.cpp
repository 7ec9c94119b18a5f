// Connectors of processes on the loopback interface.

#include "actors/process/connector.hpp"

#include "actors/process/control_plane.hpp"
#include "messages/core/error.hpp"
#include "runtime/process/credentials.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/soon.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/exit_reason.hpp>
#include <caf/scoped_actor.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using tests::soon;

namespace {

constexpr auto patience = std::chrono::seconds(20);  // reached by a hang only

/// A process of a run, without data planes.
struct connected_process {
  connected_process(const std::filesystem::path& credentials, messages::process_name who)
      : config(actors::make_configuration(2, actors::control_settings{credentials, 10})),
        system(*config) {
    broken->tell_to([this](const actors::broken_connection& x) {
      const std::lock_guard lock(mutex);
      lost.push_back(x.to);
    });
    links = std::make_shared<actors::neighbours>(who, nullptr, nullptr, broken);
    actor = system.spawn<caf::detached>(actors::connector, links, std::chrono::milliseconds(5000));
    where = {.who = who, .host = "127.0.0.1"};
    where.port = actors::publish(actor, where.host);
  }
  ~connected_process() {
    caf::scoped_actor self(system);
    self->send_exit(actor, caf::exit_reason::remote_link_unreachable);  // as a killed process
    self->wait_for(actor);
    actors::unpublish(actor);
    actor = nullptr;
  }
  connected_process(const connected_process&) = delete;
  connected_process& operator=(const connected_process&) = delete;

  /// The answer, or an error with its text as the failure.
  messages::connected connect(std::uint64_t generation,
                              std::vector<messages::process_address> others,
                              std::uint64_t since = 0,
                              std::vector<int> no_more = {}) {
    messages::connected out{.failure = "no answer"};
    caf::scoped_actor self(system);
    self->request(actor,
                  patience,
                  messages::connect_to{
                      runtime::make_generation(1, generation),
                      since == 0 ? runtime::generation_id() : runtime::make_generation(1, since),
                      std::move(others),
                      std::move(no_more)})
        .receive([&](const messages::connected& x) { out = x; },
                 [&](const caf::error& why) { out.failure = messages::text_of(why); });
    return out;
  }
  std::vector<messages::process_name> losses() {
    const std::lock_guard lock(mutex);
    return lost;
  }

  std::unique_ptr<caf::actor_system_config> config;
  caf::actor_system system;
  std::shared_ptr<actors::broken_connections> broken
      = std::make_shared<actors::broken_connections>();
  std::shared_ptr<actors::neighbours> links;
  messages::connector_actor actor;
  messages::process_address where;
  std::mutex mutex;
  std::vector<messages::process_name> lost;
};

struct connected_run {
  connected_run() : credentials(folder / "credentials") {
    runtime::make_credentials(credentials, "run");
    a.emplace(credentials, messages::process_name{0, 1});
    b.emplace(credentials, messages::process_name{1, 1});
  }
  tests::scratch_folder folder;
  std::filesystem::path credentials;
  std::optional<connected_process> a, b;
};

}  // namespace

TEST_CASE("LINK-1: a connector reports a lost neighbour, and calls it again when told",
          "[actors]") {
  connected_run it;
  const auto first = it.b->where;
  REQUIRE(it.a->connect(1, {first}).failure.empty());
  CHECK(it.a->links->knows(1));
  CHECK(it.a->connect(2, {first}).failure.empty());  // stays connected
  CHECK(it.a->losses().empty());
  it.b.reset();
  CHECK(soon([&] { return it.a->losses() == std::vector<messages::process_name>{{1, 1}}; }));
  const auto gone = it.a->connect(3, {first});
  CHECK(gone.other == first.who);
  CHECK_THAT(gone.failure, ContainsSubstring("127.0.0.1 port " + std::to_string(first.port)));
  it.b.emplace(it.credentials, messages::process_name{1, 2});
  CHECK(it.a->connect(4, {it.b->where}).failure.empty());
  it.b.reset();
  REQUIRE(soon([&] { return it.a->losses().size() == 2; }));
  CHECK(it.a->losses().back() == messages::process_name{1, 2});
}

TEST_CASE("a connector parts from processes that are no neighbours any more", "[actors]") {
  connected_run it;
  connected_process c(it.credentials, {2, 1});
  REQUIRE(it.a->connect(1, {it.b->where, c.where}).failure.empty());
  REQUIRE(it.a->connect(2, {c.where}).failure.empty());
  CHECK_FALSE(it.a->links->knows(1));
  it.b.reset();
  REQUIRE(it.a->connect(3, {c.where}).failure.empty());
  CHECK(it.a->losses().empty());
}

TEST_CASE("a connector that is told of changes keeps its other neighbours", "[actors]") {
  connected_run it;
  connected_process c(it.credentials, {2, 1});
  REQUIRE(it.a->connect(1, {it.b->where}).failure.empty());
  REQUIRE(it.a->connect(2, {c.where}, 1).failure.empty());
  CHECK((it.a->links->knows(1) && it.a->links->knows(2)));
  it.b.reset();
  REQUIRE(soon([&] { return it.a->losses() == std::vector<messages::process_name>{{1, 1}}; }));
  CHECK(it.a->connect(3, {}, 2).other == messages::process_name{1, 1});  // calls it again
  it.b.emplace(it.credentials, messages::process_name{1, 2});
  REQUIRE(it.a->connect(4, {it.b->where}, 2).failure.empty());
  CHECK(it.a->links->knows(1));
  REQUIRE(it.a->connect(5, {}, 4, {2}).failure.empty());
  CHECK((it.a->links->knows(1) && !it.a->links->knows(2)));
}

TEST_CASE("a connector does not call a neighbour that calls it", "[actors]") {
  connected_run it;
  CHECK(it.a->connect(1, {{.who = {5, 1}, .host = "127.0.0.1"}}).failure.empty());
  CHECK(it.a->links->knows(5));
}

TEST_CASE("NODE-3: a connector ignores an older generation", "[actors]") {
  connected_run it;
  REQUIRE(it.a->connect(2, {it.b->where}).failure.empty());
  CHECK_THAT(it.a->connect(1, {}).failure, ContainsSubstring("NODE-3"));
  CHECK(it.a->links->knows(1));
}
