#include "actors/simulation/world.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/waiting.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <set>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::actors::simulation;
using namespace std::chrono_literals;

namespace {

using lines = std::vector<std::string>;

/// Logs each number with its time.
caf::behavior listener(caf::event_based_actor*, world* in, lines* to, std::string name) {
  return {[=](int i) { to->push_back(fmt::format("{} {} at {}", name, i, in->now_ns())); }};
}

/// Sleeps within its turn, like a thread blocked on a disk.
caf::behavior sleeper(caf::event_based_actor*, lines* to) {
  return {[=](int i) {
    to->push_back(fmt::format("begins {}", i));
    runtime::sleep_for(5us);
    to->push_back(fmt::format("ends {}", i));
  }};
}

void run(world& in) {
  while (in.turn()) {
  }
}

/// The messages of two actors that get three numbers each, in the order of this seed.
lines order_of(std::uint64_t seed, mix how, std::string* trace = nullptr) {
  lines seen;
  world in(seed, std::move(how), std::make_shared<turn_trace>([&](std::string_view line) {
             if (trace != nullptr)
               *trace += line;
           }));
  const auto a = in.system().spawn(listener, &in, &seen, "a");
  const auto b = in.system().spawn(listener, &in, &seen, "b");
  for (int i = 0; i < 3; ++i)
    for (const auto& x : {a, b})
      caf::anon_send(x, i);
  run(in);
  return seen;
}

}  // namespace

TEST_CASE("the same seed gives the same schedule, and other seeds give others", "[simulation]") {
  const mix any{.by = mix::order::uniform};
  std::string first, second;
  CHECK(order_of(1, any, &first) == order_of(1, any, &second));
  CHECK(first == second);
  CHECK_FALSE(first.empty());
  std::set<lines> all;
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    all.insert(order_of(seed, any));
  // Every interleaving of three and three; messages to one actor stay in order.
  CHECK(all.size() == 20);
}

TEST_CASE("with priorities one actor runs before the other until a change point", "[simulation]") {
  std::set<lines> all;
  for (std::uint64_t salt = 1; salt <= 50; ++salt)
    all.insert(order_of(1, {.by = mix::order::priorities, .salt = salt}));
  CHECK(all.size() == 2);
  for (std::uint64_t salt = 1; salt <= 50; ++salt)
    all.insert(order_of(1, {.by = mix::order::priorities, .salt = salt, .change_points = {1}}));
  CHECK(all.size() > 2);
}

TEST_CASE("with all actors idle the clock advances to the next timer", "[simulation]") {
  world in(1, calm(), std::make_shared<turn_trace>());
  lines seen;
  const auto who = in.system().spawn(listener, &in, &seen, "a");
  const auto begin = in.now_ns();
  in.system().clock().schedule_message(
      in.system().clock().now() + 1h,
      caf::actor_cast<caf::strong_actor_ptr>(who),
      caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, 2));
  in.at(begin + 1000, "an event", [&] { seen.emplace_back("event"); });
  caf::anon_send(who, 1);
  run(in);
  CHECK(seen
        == lines{fmt::format("a 1 at {}", begin),
                 "event",
                 fmt::format("a 2 at {}", begin + 3600'000'000'000)});
}

TEST_CASE("an actor can sleep within its turn while others run", "[simulation]") {
  world in(1, calm(), std::make_shared<turn_trace>());
  lines seen;
  const auto slow = in.system().spawn(sleeper, &seen);
  const auto quick = in.system().spawn(listener, &in, &seen, "a");
  caf::anon_send(slow, 1);
  caf::anon_send(slow, 2);
  caf::anon_send(quick, 7);
  const auto begin = in.now_ns();
  run(in);
  REQUIRE(seen.size() == 5);
  CHECK(seen[0] == "begins 1");
  CHECK(seen[1] == fmt::format("a 7 at {}", begin));
  CHECK(seen[2] == "ends 1");  // one message at a time
  CHECK(seen[4] == "ends 2");
  CHECK(in.on_fibers().empty());
}

TEST_CASE("a world that ends leaves no actor and no fiber, even if one waits forever",
          "[simulation]") {
  lines seen;
  const auto kept = std::make_shared<int>(1);
  {
    world in(1, calm(), std::make_shared<turn_trace>());
    const auto who = in.system().spawn([kept]() -> caf::behavior {
      return {[kept](int) {
        try {
          runtime::running_fiber::current()->wait([] { return false; });
        } catch (const runtime::cancelled&) {
        }
      }};
    });
    caf::anon_send(who, 1);
    run(in);
    CHECK(in.on_fibers().size() == 1);
    CHECK(in.running() == 1);
  }
  CHECK(kept.use_count() == 1);
}

TEST_CASE("an actor takes its time for each message, and others handle theirs meanwhile",
          "[simulation]") {
  lines seen;
  world in(1, calm(), std::make_shared<turn_trace>());
  const auto begin = in.now_ns();
  in.take_time(10);
  std::vector<caf::actor_id> looked;
  in.before_message([&](caf::actor_id to, const auto&) { looked.push_back(to); });
  const auto a = in.system().spawn(listener, &in, &seen, "a");
  const auto b = in.system().spawn(listener, &in, &seen, "b");
  caf::anon_send(a, 1);
  caf::anon_send(a, 2);
  caf::anon_send(b, 3);
  run(in);
  CHECK(seen
        == lines{fmt::format("a 1 at {}", begin + 10),
                 fmt::format("b 3 at {}", begin + 10),
                 fmt::format("a 2 at {}", begin + 20)});
  CHECK(looked == std::vector{a->id(), b->id(), a->id()});
}
