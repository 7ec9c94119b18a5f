// What becomes of waits and leases when others die, hang or are cancelled.

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

TEST_CASE(
    "tensors come from another process, and those that wait for one that dies are told at once",
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

  other.stop();  // so that its answer does not come
  auto first = redeeming(by, ticket_of(2, 7)), second = redeeming(by, ticket_of(2, large));
  CHECK(waits(first));
  CHECK(waits(second));
  other.end();
  REQUIRE(is_ready(first));
  REQUIRE(is_ready(second));
  CHECK_THAT(first.get(), ContainsSubstring("the connection to 127.0.0.1:"));
  CHECK_THAT(second.get(), ContainsSubstring("is lost"));
  CHECK_THROWS_AS(by.redeem(ticket_of(2, 7)), io_error);  // and it stays so
}

TEST_CASE("what a redeemer that died was being sent is released", "[transport]") {
  memory_pool pool;
  wire_transport by({.process = 1}, by_ucx);
  by.deposit(numbered(pool, large), now);
  tests::child other({peer_program(), "hang", by.address().where, std::to_string(large)});
  REQUIRE(other.line() == "stopping");
  CHECK(by.leased() == 0);
  CHECK(pool.bytes_in_use() > 0);
  other.end();
  CHECK(tests::soon([&] { return pool.bytes_in_use() == 0; }));
  // Others are served as before.
  wire_transport there({.process = 3}, by_ucx);
  there.introduce(by.address());
  CHECK(there.redeem(by.deposit(numbered(pool, 5000), now)).size() == 5000);
}

TEST_CASE("what a redeemer that hangs was being sent is released when he is forgotten",
          "[transport]") {
  memory_pool pool;
  wire_transport by({.process = 1}, by_ucx);
  by.deposit(numbered(pool, large), now);
  tests::child other({peer_program(), "hang", by.address().where, std::to_string(large)});
  REQUIRE(other.line() == "stopping");
  by.end_generation(now);
  CHECK(by.leased() == 0);
  CHECK(pool.bytes_in_use() > 0);
  by.forget(3, "it does not answer");  // another
  by.forget(2, "it does not answer");
  CHECK(tests::soon([&] { return pool.bytes_in_use() == 0; }));
}

TEST_CASE("who was lost, or has gone elsewhere, is redeemed of again once he is introduced anew",
          "[transport]") {
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
  SECTION("elsewhere") {
    wire_transport second({.process = 2}, by_ucx);
    by.introduce(second.address());
    CHECK(by.redeem(second.deposit(numbered(pool, 20), now)).size() == 20);
  }
}

TEST_CASE("LINK-1: a connection that broke is made anew for the next generation", "[transport]") {
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
  // Its generation has to end: nothing of it is asked for any more.
  CHECK_THROWS_AS(by.redeem(ticket_of(2, 7)), peer_lost);
  CHECK(holder.heard().size() == 1);
  SECTION("it is") {
    by.end_generation(now);
    auto again = redeeming(by, next(ticket_of(2, 7)));
    CHECK(tests::soon([&] { return holder.heard().size() == 2; }));
    CHECK(waits(again));
    by.end_generation(generation_id{value(now) + 1});
    CHECK_THAT(again.get(), ContainsSubstring("cancelled"));
  }
  SECTION("but not to who was forgotten") {
    by.forget(2, "it has died");
    by.end_generation(now);
    CHECK_THROWS_AS(by.redeem(next(ticket_of(2, 7))), peer_lost);
    CHECK(holder.heard().size() == 1);
  }
}

TEST_CASE("LINK-1: of a connection that breaks while nobody waits nobody is told", "[transport]") {
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
  // What comes after it is heard after it.
  CHECK(second.redeem(first.deposit(numbered(pool, 20), now)).size() == 20);
  CHECK(first.redeem(second.deposit(numbered(pool, 30), now)).size() == 30);
  CHECK(told == 0);
}

TEST_CASE("LINK-1: what is heard late of connections that both ends closed breaks no others",
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
  // What comes after it is heard after it.
  CHECK(second.redeem(first.deposit(numbered(pool, 50), next)).size() == 50);
  CHECK(first.redeem(second.deposit(numbered(pool, 60), next)).size() == 60);
  CHECK(told == 0);
  first.forget(2, "it has died");
  first.renew_connections(2, "a connection broke");
  CHECK_THROWS_AS(first.redeem(second.deposit(numbered(pool, 10), next)), peer_lost);
}

TEST_CASE("a wait for a process that hangs ends with its token, or with its generation",
          "[transport]") {
  tests::child other({peer_program(), "hold", "1000"});
  wire_transport by({.process = 1}, by_ucx);
  by.introduce({2, other.line()});
  by.redeem(ticket_of(2, 1000));
  other.stop();
  const cancel_token token;
  auto waiting = redeeming(by, ticket_of(2, 5), token);
  CHECK(waits(waiting));
  SECTION("the token") {
    token.cancel();
  }
  SECTION("the generation") {
    by.end_generation(now);
  }
  REQUIRE(is_ready(waiting));
  CHECK_THAT(waiting.get(), ContainsSubstring("cancelled"));
  other.go_on();  // its late answer is for nobody
  CHECK(tests::soon([&] { return by.counters().refused == 0 || by.leased() == 0; }));
}

TEST_CASE("a transport is closed although a peer hangs that was sent much", "[transport]") {
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

TEST_CASE("a wire whose thread the system refuses is refused, with what the system says",
          "[transport]") {
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

TEST_CASE("a token that is set already ends the wait before it begins", "[transport]") {
  wire_transport by({.process = 1, .through_the_wire = true}, by_ucx);
  memory_pool pool;
  const auto x = by.deposit(numbered(pool, 10), now);
  const cancel_token token;
  token.cancel();
  CHECK_THROWS_AS(by.redeem(x, {.until = token}), cancelled);
}
