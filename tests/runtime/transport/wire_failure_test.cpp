// Waits and leases when a peer dies, hangs or is cancelled.

#include "tests/support/child.hpp"
#include "tests/support/memory_wire.hpp"
#include "tests/support/soon.hpp"
#include "tests/support/wire_peers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("tensors arrive from another process, and its death ends all waits for it at once",
          "[transport]") {
  const std::int64_t n = GENERATE(0, 1, 1001, large);
  CAPTURE(n);
  tests::child other({peer_program(), "hold", std::to_string(n)});
  wire_transport by({.process = 1}, by_ucx);
  by.introduce({2, other.line()});
  const auto x = by.redeem(ticket_of(2, n));
  const auto* const at = x.data<std::int32_t>();
  bool same = true;
  for (std::int32_t i = 0; i < n; ++i)
    same = same && at[i] == i;
  CHECK(same);

  other.stop();  // its answer does not arrive
  auto first = redeeming(by, ticket_of(2, 7)), second = redeeming(by, ticket_of(2, large));
  CHECK(waits(first));
  CHECK(waits(second));
  other.end();
  REQUIRE(is_ready(first));
  REQUIRE(is_ready(second));
  CHECK_THAT(first.get(), ContainsSubstring("the connection to 127.0.0.1:"));
  CHECK_THAT(second.get(), ContainsSubstring("is lost"));
  CHECK_THROWS_AS(by.redeem(ticket_of(2, 7)), io_error);  // later redeems fail, too
}

TEST_CASE("a tensor in transfer to a dead redeemer is released", "[transport]") {
  memory_pool pool;
  wire_transport by({.process = 1}, by_ucx);
  by.deposit(numbered(pool, large), now);
  tests::child other({peer_program(), "hang", by.address().where, std::to_string(large)});
  REQUIRE(other.line() == "stopping");
  CHECK(by.leased() == 0);
  CHECK(pool.bytes_in_use() > 0);
  other.end();
  CHECK(tests::soon([&] { return pool.bytes_in_use() == 0; }));
  // Other peers are served as before.
  wire_transport there({.process = 3}, by_ucx);
  there.introduce(by.address());
  CHECK(there.redeem(by.deposit(numbered(pool, 5000), now)).size() == 5000);
}

TEST_CASE("a tensor in transfer to a hung redeemer is released when the peer is forgotten",
          "[transport]") {
  memory_pool pool;
  wire_transport by({.process = 1}, by_ucx);
  by.deposit(numbered(pool, large), now);
  tests::child other({peer_program(), "hang", by.address().where, std::to_string(large)});
  REQUIRE(other.line() == "stopping");
  by.end_generation(now);
  CHECK(by.leased() == 0);
  CHECK(pool.bytes_in_use() > 0);
  by.forget(3, "it does not answer");  // another peer
  by.forget(2, "it does not answer");
  CHECK(tests::soon([&] { return pool.bytes_in_use() == 0; }));
}

TEST_CASE("a lost or moved peer is used again after it is introduced again", "[transport]") {
  memory_pool pool;
  wire_transport by({.process = 1}, by_ucx);
  auto first = std::make_unique<wire_transport>(wire_transport_settings{.process = 2}, by_ucx);
  by.introduce(first->address());
  CHECK(by.redeem(first->deposit(numbered(pool, 10), now)).size() == 10);
  SECTION("forgotten") {
    by.forget(2, "it does not answer");
    CHECK_THROWS_AS(by.redeem(first->deposit(numbered(pool, 10), now)), io_error);
    by.introduce(first->address());
    CHECK(by.redeem(first->deposit(numbered(pool, 10), now)).size() == 10);
  }
  SECTION("at another address") {
    wire_transport second({.process = 2}, by_ucx);
    by.introduce(second.address());
    CHECK(by.redeem(second.deposit(numbered(pool, 20), now)).size() == 20);
  }
}

TEST_CASE("LINK-1: a broken connection is replaced in the next generation", "[transport]") {
  stranger holder;
  std::mutex mutex;
  std::vector<std::pair<std::uint64_t, generation_id>> told;
  wire_transport by({.process = 1,
                     .broke =
                         [&](std::uint64_t process, generation_id in, const std::string&) {
                           const std::lock_guard lock(mutex);
                           told.emplace_back(process, in);
                         }},
                    by_ucx);
  by.introduce({2, holder.address()});
  const auto next = [](ticket x) {
    x.generation = generation_id{value(now) + 1};
    return x;
  };
  auto waiting = redeeming(by, ticket_of(2, 7));
  REQUIRE(tests::soon([&] { return holder.heard().size() == 1; }));
  holder.close(holder.caller());
  REQUIRE(is_ready(waiting));
  CHECK_THAT(waiting.get(), ContainsSubstring("is lost"));
  REQUIRE(tests::soon([&] {
    const std::lock_guard lock(mutex);
    return told == std::vector{std::pair(std::uint64_t{2}, now)};
  }));
  // The generation has to end: further redeems in it fail at once.
  CHECK_THROWS_AS(by.redeem(ticket_of(2, 7)), peer_lost);
  CHECK(holder.heard().size() == 1);
  SECTION("it is replaced") {
    by.end_generation(now);
    auto again = redeeming(by, next(ticket_of(2, 7)));
    CHECK(tests::soon([&] { return holder.heard().size() == 2; }));
    CHECK(waits(again));
    by.end_generation(generation_id{value(now) + 1});
    CHECK_THAT(again.get(), ContainsSubstring("cancelled"));
  }
  SECTION("a forgotten peer stays lost") {
    by.forget(2, "it has died");
    by.end_generation(now);
    CHECK_THROWS_AS(by.redeem(next(ticket_of(2, 7))), peer_lost);
    CHECK(holder.heard().size() == 1);
  }
}

TEST_CASE("LINK-1: a connection that breaks without a waiting redeem is not reported",
          "[transport]") {
  memory_pool pool;
  std::atomic<int> told = 0;
  std::vector<memory_wire*> wires;
  const auto make = [&](wire_owner& owner) {
    auto out = std::make_unique<memory_wire>(owner);
    wires.push_back(out.get());
    return out;
  };
  const auto tells = [&](std::uint64_t, generation_id, const std::string&) { ++told; };
  wire_transport first({.process = 1, .broke = tells}, make);
  wire_transport second({.process = 2, .broke = tells}, make);
  first.introduce(second.address());
  second.introduce(first.address());
  CHECK(first.redeem(second.deposit(numbered(pool, 10), now)).size() == 10);
  wires[0]->close(peer_number{1}, "it was cut");
  // Later messages arrive after the break was handled.
  CHECK(second.redeem(first.deposit(numbered(pool, 20), now)).size() == 20);
  CHECK(first.redeem(second.deposit(numbered(pool, 30), now)).size() == 30);
  CHECK(told == 0);
}

TEST_CASE("LINK-1: a late report of a broken connection does not break its successor",
          "[transport]") {
  memory_pool pool;
  std::atomic<int> told = 0;
  std::vector<memory_wire*> wires;
  const auto make = [&](wire_owner& owner) {
    auto out = std::make_unique<memory_wire>(owner);
    wires.push_back(out.get());
    return out;
  };
  const auto tells = [&](std::uint64_t, generation_id, const std::string&) { ++told; };
  wire_transport first({.process = 1, .broke = tells}, make);
  wire_transport second({.process = 2, .broke = tells}, make);
  first.introduce(second.address());
  second.introduce(first.address());
  CHECK(first.redeem(second.deposit(numbered(pool, 10), now)).size() == 10);
  CHECK(second.redeem(first.deposit(numbered(pool, 20), now)).size() == 20);
  wires[1]->hold_losses();
  wires[0]->close(peer_number{1}, "it was cut");
  for (auto* const one : {&first, &second}) {
    one->end_generation(now);
    one->renew_connections(one == &first ? 2 : 1, "a connection broke");
  }
  const auto next = generation_id{value(now) + 1};
  CHECK(first.redeem(second.deposit(numbered(pool, 30), next)).size() == 30);
  CHECK(second.redeem(first.deposit(numbered(pool, 40), next)).size() == 40);
  wires[1]->hear_losses();
  // Later messages arrive after the break was handled.
  CHECK(second.redeem(first.deposit(numbered(pool, 50), next)).size() == 50);
  CHECK(first.redeem(second.deposit(numbered(pool, 60), next)).size() == 60);
  CHECK(told == 0);
  first.forget(2, "it has died");
  first.renew_connections(2, "a connection broke");
  CHECK_THROWS_AS(first.redeem(second.deposit(numbered(pool, 10), next)), peer_lost);
}

TEST_CASE("a wait for a hung process ends with its token or its generation", "[transport]") {
  tests::child other({peer_program(), "hold", "1000"});
  wire_transport by({.process = 1}, by_ucx);
  by.introduce({2, other.line()});
  by.redeem(ticket_of(2, 1000));
  other.stop();
  const cancel_token token;
  auto waiting = redeeming(by, ticket_of(2, 5), token);
  CHECK(waits(waiting));
  SECTION("token") {
    token.cancel();
  }
  SECTION("generation") {
    by.end_generation(now);
  }
  REQUIRE(is_ready(waiting));
  CHECK_THAT(waiting.get(), ContainsSubstring("cancelled"));
  other.go_on();  // its late answer is dropped
  CHECK(tests::soon([&] { return by.counters().refused == 0 || by.leased() == 0; }));
}

TEST_CASE("a transport closes although a peer with pending sends hangs", "[transport]") {
  memory_pool pool;
  tests::child other({peer_program(), "hold", "1000"});
  const auto where = other.line();
  {
    wire_transport by({.process = 1}, by_ucx);
    by.introduce({2, where});
    by.redeem(ticket_of(2, 1000));
    stranger some;
    const auto to = some.call(where);
    other.stop();
    const auto asks
        = bytes_of(wire_message{.what = ticket_of(2, 5), .fetch = 1, .begin = 0, .end = 20});
    auto part = wire_message{.what = ticket_of(2, large), .fetch = 1, .begin = 0, .end = large * 4};
    part.verb = wire_verb::part;
    for (int i = 0; i < 5000; ++i)
      some.send(to, asks);
    for (int i = 0; i < 20; ++i) {
      const auto x = numbered(pool, large);
      some.send(to, bytes_of(part), x);
    }
    auto waiting = redeeming(by, ticket_of(2, 5));
    CHECK(waits(waiting));
    by.end_generation(now);
    REQUIRE(is_ready(waiting));
  }
  CHECK(pool.bytes_in_use() == 0);
}

TEST_CASE("a failed start of a wire's thread is reported with the system's error", "[transport]") {
  struct nobody final : wire_owner {
    landing arrived(peer_number, std::span<const std::byte>, std::size_t) override { return {}; }
    void lost(peer_number, const std::string&) override {}
  } owner;
  auto settings = settings_without_secret();
  settings.start_thread
      = [](const std::string& name, const std::function<void()>&) -> std::jthread {
    throw io_error("cannot start the thread '{}'", name);
  };
  CHECK_THROWS_WITH(make_ucx_wire(owner, settings),
                    ContainsSubstring("cannot start the thread 'ucx wire'"));
}

TEST_CASE("a cancelled token ends the wait at once", "[transport]") {
  wire_transport by({.process = 1, .through_the_wire = true}, by_ucx);
  memory_pool pool;
  const auto x = by.deposit(numbered(pool, 10), now);
  const cancel_token token;
  token.cancel();
  CHECK_THROWS_AS(by.redeem(x, {.until = token}), cancelled);
}
