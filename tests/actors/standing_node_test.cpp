// A standing node with a host agent; its processes only sleep, and the test plays launchers.

#include "actors/process/standing_node.hpp"

#include "actors/process/control_plane.hpp"
#include "messages/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/job/build.hpp"
#include "runtime/process/host_agent.hpp"
#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/run_succession.hpp"
#include "tests/support/places.hpp"
#include "tests/support/soon.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

constexpr auto patience = std::chrono::seconds(60);  // reached by a hang only
const std::string copied_run = "0123456789abcdef";

struct waiting {
  explicit waiting(bool once = false, const std::string& successor = "") {
    const auto player = tests::bin_dir() + "/process_player";
    actors::standing_node_settings settings{
        .run = folder.path(),
        .address = "127.0.0.1",
        .suspicion = 10,
        .once = once,
        .agent = {player, runtime::agent_word, "run", folder.path().string(), "10000"},
        .node = [](const actors::node_program&) {
          return std::vector<std::string>{"/bin/sleep", "1000"};
        }};
    settings.copies = copies();
    if (!successor.empty())
      settings.successor = [in_folder = "cd '" + folder.path().string() + "'; "
                                        + successor](const actors::run_copy&) {
        return std::vector<std::string>{"/bin/sh", "-c", in_folder};
      };
    node = system.spawn(actors::standing_node, settings);
  }
  ~waiting() {
    caf::scoped_actor self(system);
    self->send(node, messages::shut_down{});
    self->wait_for(node);
    node = nullptr;
  }
  waiting(const waiting&) = delete;
  waiting& operator=(const waiting&) = delete;

  fs::path copies() const { return folder.path() / "copies"; }

  runtime::held_run_folder folder = runtime::held_run_folder::temporary("test", {"test"});
  std::unique_ptr<caf::actor_system_config> config = actors::make_configuration(true);
  caf::actor_system system{*config};
  messages::standing_node_actor node;
};

/// A launcher that only receives.
struct player {
  explicit player(waiting& at) : it(at), self(at.system) {
    as_launcher = caf::actor_cast<messages::launcher_actor>(self.ptr());
  }

  messages::serve order(int process = 0) const {
    return {.program = runtime::version_text(),
            .run = "one",
            .host = process,
            .places = {process},
            .suspicion = 10,
            .address = "127.0.0.1",
            .port = 1,
            .launcher = as_launcher};
  }
  /// The order of the supervisor's process of that incarnation, which can have a successor.
  messages::serve order_of(std::uint32_t incarnation) const {
    auto out = order();
    out.incarnation = incarnation;
    out.succeeded = true;
    return out;
  }
  /// The refusal; empty: it is served.
  std::string serve(const messages::serve& x) {
    std::string out;
    self->request(it.node, patience, x)
        .receive([](const messages::serving&) {},
                 [&](const caf::error& why) { out = messages::text_of(why); });
    return out;
  }
  messages::standing_process start(const messages::process_name& who) {
    self->send(it.node, messages::start_node{7, who});
    const auto started = std::get<runtime::process_started>(runtime::read_answer(told().answer));
    return {who, started.process.pid, started.process.start_time};
  }
  /// Takes over, and returns the processes that it finds.
  std::vector<messages::standing_process> take_over(const messages::serve& x) {
    std::vector<messages::standing_process> out;
    self->request(it.node, patience, x)
        .receive([&](const messages::serving& answer) { out = answer.running; },
                 [&](const caf::error& why) { FAIL(messages::text_of(why)); });
    return out;
  }
  /// Sends a copy of the run, so that a successor can continue from it.
  void leave_copy(std::uint32_t incarnation) {
    const runtime::run_record record{
        .id = copied_run, .program = "test", .command = {"troupe"}, .started = "now", .ended = {}};
    self->send(it.node,
               messages::keep_run{.incarnation = incarnation,
                                  .address = "127.0.0.1",
                                  .port = 1,
                                  .record = runtime::text_of(record),
                                  .order = "order",
                                  .description = "{}",
                                  .secret = std::string(64, 'a'),
                                  .save = it.folder.path().string(),
                                  .directory = it.folder.path().string(),
                                  .round = incarnation + 1});
  }
  messages::agent_told told() {
    messages::agent_told out{.answer = "nothing"};
    self->receive([&](const messages::agent_told& x) { out = x; }, caf::after(patience) >> [] {});
    return out;
  }

  waiting& it;
  caf::scoped_actor self;
  messages::launcher_actor as_launcher;
};

}  // namespace

TEST_CASE("a run with another build or timeout is refused with both values", "[actors]") {
  waiting it;
  player one(it);
  auto other = one.order();
  other.program = "troupe of yesterday";
  CHECK_THAT(one.serve(other),
             ContainsSubstring("'troupe of yesterday'")
                 && ContainsSubstring("'" + runtime::version_text() + "'"));
  other = one.order();
  other.protocol = messages::process_protocol + 1;
  CHECK_THAT(one.serve(other), ContainsSubstring("same build"));
  other = one.order();
  other.suspicion = 2;
  CHECK_THAT(one.serve(other),
             ContainsSubstring("`recovery.suspicion` 10") && ContainsSubstring("has 2"));
  CHECK(one.serve(one.order()).empty());
}

TEST_CASE("a node serves one place at a time, and the next one after the first has ended",
          "[actors]") {
  waiting it;
  player one(it), two(it);
  REQUIRE(one.serve(one.order()).empty());
  CHECK_THAT(two.serve(two.order()), ContainsSubstring("named twice"));
  auto other = two.order();
  other.run = "two";
  CHECK_THAT(two.serve(other), ContainsSubstring("another run"));
  one.self->send(it.node, messages::dismiss{});
  CHECK(one.told().gone);
  CHECK(two.serve(other).empty());
}

TEST_CASE("answers of the agent go to the launcher that the node serves", "[actors]") {
  waiting it;
  player one(it), two(it);
  REQUIRE(one.serve(one.order(3)).empty());
  two.self->send(it.node, messages::start_node{1, {3, 1}});  // not the launcher that is served
  one.self->send(it.node, messages::start_node{7, {3, 1}});
  auto x = one.told();
  CHECK(x.host == 3);
  const auto started = std::get<runtime::process_started>(runtime::read_answer(x.answer));
  CHECK(started.request == 7);
  CHECK(started.name == "node-3");
  CHECK(started.which == 1);
  one.self->send(it.node, messages::kill_node{8, {3, 1}});
  bool died = false, signalled = false;
  for (int n = 0; n < 2; ++n) {
    const auto answer = runtime::read_answer(one.told().answer);
    died = died || std::holds_alternative<runtime::process_died>(answer);
    signalled = signalled || std::holds_alternative<runtime::process_signalled>(answer);
  }
  CHECK((died && signalled));
  one.self->send(it.node, messages::dismiss{});
  while (!(x = one.told()).gone && x.answer != "nothing") {
  }
  CHECK(x.gone);
}

TEST_CASE("a start during a kill waits for the end of the killed process", "[actors]") {
  waiting it;
  player one(it);
  REQUIRE(one.serve(one.order()).empty());
  const auto first = one.start({0, 1});
  one.self->send(it.node, messages::kill_node{8, first.who});
  one.self->send(it.node, messages::start_node{9, {0, 2}});
  bool has_died = false;
  for (bool stands = false; !stands;) {
    const auto answer = runtime::read_answer(one.told().answer);
    REQUIRE_FALSE(std::holds_alternative<runtime::request_refused>(answer));
    if (const auto* const died = std::get_if<runtime::process_died>(&answer)) {
      CHECK(died->which == 1);
      has_died = true;
    }
    if (const auto* const started = std::get_if<runtime::process_started>(&answer)) {
      CHECK(has_died);
      CHECK(started->request == 9);
      CHECK(started->which == 2);
      stands = true;
    }
  }
}

TEST_CASE("a spare starts any place, and several at once", "[actors]") {
  waiting it;
  player one(it), two(it);
  auto order = one.order(5);
  order.places.clear();
  REQUIRE(one.serve(order).empty());
  CHECK_THAT(two.serve(two.order()), ContainsSubstring("is a spare of this run"));
  for (const int place : {0, 2}) {
    one.self->send(it.node, messages::start_node{std::uint64_t(place + 1), {place, 4}});
    const auto x = one.told();
    CHECK(x.host == 5);
    const auto started = std::get<runtime::process_started>(runtime::read_answer(x.answer));
    CHECK(started.name == "node-" + std::to_string(place));
  }
  one.self->send(it.node, messages::dismiss{});
  messages::agent_told x;
  int died = 0;
  while (!(x = one.told()).gone && x.answer != "nothing")
    died += std::holds_alternative<runtime::process_died>(runtime::read_answer(x.answer)) ? 1 : 0;
  CHECK(x.gone);
  CHECK(died == 2);
}

TEST_CASE("the end of the launcher ends its processes, and the next launcher is served",
          "[actors]") {
  waiting it;
  player next(it);
  {
    player one(it);
    REQUIRE(one.serve(one.order()).empty());
    one.self->send(it.node, messages::start_node{1, {0, 1}});
    REQUIRE(
        std::holds_alternative<runtime::process_started>(runtime::read_answer(one.told().answer)));
  }
  std::string why = "not yet";
  // The loss of the launcher is noticed a moment later.
  for (int n = 0; n < 1000 && !why.empty(); ++n)
    why = next.serve(next.order());
  CHECK(why.empty());
}

TEST_CASE("a successor finds the living processes of the launcher before it", "[actors]") {
  waiting it;
  player next(it);
  messages::standing_process before;
  {
    player one(it);
    REQUIRE(one.serve(one.order_of(1)).empty());
    CHECK(runtime::find_rendezvous(it.folder)->incarnation == 1);
    before = one.start({0, 3});
  }
  auto order = next.order_of(2);
  order.port = 2;
  CHECK(next.take_over(order) == std::vector{before});
  CHECK(runtime::find_rendezvous(it.folder)
        == runtime::rendezvous_place{.incarnation = 2, .address = "127.0.0.1", .port = 2});
  CHECK(runtime::is_running({pid_t(before.pid), before.start_time}));
  next.self->send(it.node, messages::kill_stray(before.who));
  bool died = false;
  for (int n = 0; n < 2; ++n)
    died = died
           || std::holds_alternative<runtime::process_died>(
               runtime::read_answer(next.told().answer));
  CHECK(died);
  next.self->send(it.node, messages::dismiss{});
  while (!next.told().gone) {
  }
  CHECK_FALSE(runtime::find_rendezvous(it.folder));
}

TEST_CASE("STANDING-1: orders of a superseded launcher are ignored, even while it lives",
          "[actors]") {
  waiting it;
  player one(it), next(it);
  REQUIRE(one.serve(one.order_of(1)).empty());
  CHECK(next.take_over(next.order_of(2)).empty());
  one.self->send(it.node, messages::start_node{7, {0, 1}});
  one.self->send(it.node, messages::dismiss{});
  CHECK_THAT(one.serve(one.order_of(1)), ContainsSubstring("STANDING-1"));
  next.self->send(it.node, messages::start_node{1, {0, 2}});
  const auto started = std::get<runtime::process_started>(runtime::read_answer(next.told().answer));
  CHECK(started.request == 1);
  CHECK(next.take_over(next.order_of(3)).size() == 1);
}

TEST_CASE("STANDING-1: a superseded launcher is refused, even while no launcher leads the run",
          "[actors]") {
  waiting it;
  player one(it);
  messages::standing_process before;
  {
    player next(it);
    REQUIRE(next.serve(next.order_of(2)).empty());
    before = next.start({0, 1});
  }
  for (int n = 0; n < 20; ++n)  // before and after the node holds the run
    CHECK_THAT(one.serve(one.order_of(1)), ContainsSubstring("STANDING-1"));
  player third(it);
  CHECK(third.take_over(third.order_of(3)) == std::vector{before});
}

TEST_CASE("a front's report of the end frees the run's own node only", "[actors]") {
  waiting it;
  player front(it), other(it);
  auto order = front.order();
  order.over = true;
  CHECK_THAT(front.serve(order), ContainsSubstring("does not serve that run"));
  messages::standing_process before;
  {
    player one(it);
    REQUIRE(one.serve(one.order_of(1)).empty());
    before = one.start({0, 1});
  }
  auto another = other.order();
  another.run = "two";
  order.run = "two";
  CHECK_THAT(front.serve(order), ContainsSubstring("does not serve that run"));
  CHECK(runtime::is_running({pid_t(before.pid), before.start_time}));
  order.run = "one";
  CHECK(front.serve(order).empty());
  CHECK(other.serve(another).empty());  // it waits until the node is free
  CHECK_FALSE(runtime::is_running({pid_t(before.pid), before.start_time}));
}

TEST_CASE("a launcher that waits for the end of a held run is refused when the run continues",
          "[actors]") {
  waiting it;
  player other(it), next(it);
  auto another = other.order();
  another.run = "two";
  {
    player one(it);
    REQUIRE(one.serve(one.order_of(1)).empty());
  }
  // The refusal comes at once, or after the node notices the end.
  auto waits = other.self->request(it.node, patience, another);
  CHECK(next.take_over(next.order_of(2)).empty());
  std::string why;
  waits.receive([](const messages::serving&) {},
                [&](const caf::error& x) { why = messages::text_of(x); });
  CHECK_THAT(why, ContainsSubstring("serves process 0 of another run"));
}

TEST_CASE("a launcher that is gone does not keep its turn at a held node", "[actors]") {
  waiting it;
  player third(it);
  {
    player one(it);
    REQUIRE(one.serve(one.order_of(1)).empty());
  }
  const auto waits = [&](player& by) {
    auto x = by.order();
    x.run = "two";
    bool out = false;
    for (int n = 0; n < 1000 && !out; ++n)  // losses are noticed a moment later
      by.self->request(it.node, std::chrono::milliseconds(100), x)
          .receive([](const messages::serving&) {},
                   [&](const caf::error& why) { out = why == caf::sec::request_timeout; });
    return out;
  };
  {
    player other(it);
    REQUIRE(waits(other));
    CHECK_FALSE(third.serve(third.order()).empty());
  }
  CHECK(waits(third));
}

TEST_CASE("a successor learns of processes that are just starting", "[actors]") {
  waiting it;
  player one(it), next(it);
  REQUIRE(one.serve(one.order_of(1)).empty());
  one.self->send(it.node, messages::start_node{7, {0, 3}});
  const auto found = next.take_over(next.order_of(2));
  REQUIRE(found.size() == 1);
  CHECK(found[0].who == messages::process_name{0, 3});
  CHECK(found[0].pid != 0);
}

// Otherwise the losing process would find the newer copy in its place, with an undecided round, and
// win it.
TEST_CASE("the copy of a continuing process keeps its folder until that process has ended",
          "[actors]") {
  waiting it(false,
             "touch begun; n=0; while [ ! -e lost ] && [ $n -lt 3000 ]; do sleep 0.02; n=$((n + "
             "1)); done");
  player next(it);
  {
    player one(it);
    REQUIRE(one.serve(one.order_of(1)).empty());
    one.leave_copy(1);
  }
  // The node waits until it notices the loss of the launcher.
  REQUIRE(tests::soon([&] {
    next.self->send(it.node, messages::succeed_here{1, 1});
    return fs::exists(it.folder.path() / "begun");
  }));
  next.take_over(next.order_of(2));
  next.leave_copy(2);
  REQUIRE(tests::soon(
      [&] { return fs::exists(it.copies() / (copied_run + ".1") / "rendezvous.json"); }));
  const auto first = it.copies() / (copied_run + ".0");
  CHECK(runtime::find_rendezvous(runtime::run_folder::open(first))->round == 2);
  runtime::replace_file(it.folder.path() / "lost", "");
  CHECK(tests::soon([&] { return !fs::exists(first); }));
}

TEST_CASE("a launcher that lost a node and reaches it again finds no processes", "[actors]") {
  waiting it;
  messages::standing_process before;
  {
    player one(it);
    REQUIRE(one.serve(one.order_of(1)).empty());
    before = one.start({0, 1});
  }
  player again(it);
  std::string why = "not yet";
  // The loss of the launcher is noticed a moment later.
  for (int n = 0; n < 1000 && !why.empty(); ++n)
    why = again.serve(again.order_of(1));
  CHECK(why.empty());
  CHECK_FALSE(runtime::is_running({pid_t(before.pid), before.start_time}));
}
