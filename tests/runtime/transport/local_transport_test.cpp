#include "runtime/transport/local/local_transport.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

constexpr generation_id first{1}, second{2};

tensor filled(memory_pool& pool, shape extents, float value) {
  stream stream(troupe::kernels::backend::reference, 1, pool);
  auto out = tensor::empty<float>(stream, extents);
  std::fill_n(out.data<float>(), out.size(), value);
  return out;
}

}  // namespace

TEST_CASE("a redeemed tensor is the deposited one, without a copy", "[transport]") {
  memory_pool pool;
  local_transport by(7);
  const auto x = filled(pool, {2, 3}, 5);
  const auto t = by.deposit(x, first);
  CHECK(t.holder == 7);
  CHECK(t.generation == first);
  CHECK(t.type == dtype::f32);
  CHECK(t.extents == shape{2, 3});
  const auto y = by.redeem(t);
  CHECK(y.raw() == x.raw());
  CHECK(y.extents() == x.extents());
}

TEST_CASE("HANDOFF-2: a ticket is redeemed exactly once", "[transport]") {
  memory_pool pool;
  local_transport by(7);
  const auto t = by.deposit(filled(pool, {4}, 1), first);
  CHECK(by.leased() == 1);
  by.redeem(t);
  CHECK(by.leased() == 0);
  CHECK(pool.bytes_in_use() == 0);  // the transport keeps no reference
  CHECK_THROWS_MATCHES(by.redeem(t), broken_promise, MessageMatches(StartsWith("HANDOFF-2")));
}

TEST_CASE("a ticket that was withdrawn cannot be redeemed", "[transport]") {
  memory_pool pool;
  local_transport by(7);
  const auto t = by.deposit(filled(pool, {4}, 1), first);
  const auto redeemed = by.deposit(filled(pool, {4}, 1), first);
  by.redeem(redeemed);
  by.take_back(std::array{t, redeemed});
  CHECK(by.leased() == 0);
  CHECK_THROWS_AS(by.redeem(t), cancelled);
  CHECK_THROWS_AS(by.redeem(redeemed), broken_promise);
}

TEST_CASE("TICKET-1: every ticket has a name", "[transport]") {
  memory_pool pool;
  local_transport by(7);
  bundle x;
  x.add("hidden", filled(pool, {2}, 1));
  x.add("positions", filled(pool, {3}, 2));
  auto tickets = deposit(by, x, first);
  CHECK(tickets.names == std::vector<std::string>{"hidden", "positions"});
  CHECK(by.leased() == 2);
  auto nameless = tickets;
  nameless.names.pop_back();
  CHECK_THROWS_MATCHES(
      redeem(by, nameless), broken_promise, MessageMatches(StartsWith("TICKET-1")));
  const auto y = redeem(by, tickets);
  CHECK(y.at("hidden").raw() == x.at("hidden").raw());
  CHECK(y.at("positions").raw() == x.at("positions").raw());
}

TEST_CASE("TICKET-2: a ticket is redeemed at its holder", "[transport]") {
  memory_pool pool;
  local_transport here(1), there(2);
  const auto t = here.deposit(filled(pool, {2}, 1), first);
  there.deposit(filled(pool, {2}, 2), first);  // the same slot
  CHECK_THROWS_MATCHES(there.redeem(t), broken_promise, MessageMatches(StartsWith("TICKET-2")));
  CHECK(here.leased() == 1);
}

TEST_CASE(
    "the end of a generation releases its tensors and earlier ones, and refuses later tickets",
    "[transport]") {
  memory_pool pool;
  local_transport by(7);
  const auto old = by.deposit(filled(pool, {1000}, 1), first);
  const auto live = by.deposit(filled(pool, {10}, 2), second);
  const auto used = pool.bytes_in_use();
  by.end_generation(first);
  CHECK(by.leased() == 1);
  CHECK(pool.bytes_in_use() < used);
  CHECK_THROWS_AS(by.redeem(old), cancelled);
  CHECK_THROWS_AS(by.deposit(filled(pool, {1}, 3), first), cancelled);
  CHECK(by.redeem(live).elements<float>()[0] == 2);

  const auto later = by.deposit(filled(pool, {1}, 4), second);
  by.end_generation(second);
  by.end_generation(first);  // a late end: does not reopen the second generation
  CHECK_THROWS_AS(by.redeem(later), cancelled);
  CHECK(by.leased() == 0);
  CHECK(pool.bytes_in_use() == 0);
}

TEST_CASE("local hand-offs count as handed, not as copied", "[transport]") {
  memory_pool pool;
  local_transport by(7);
  by.redeem(by.deposit(filled(pool, {3, 5}, 1), first));
  by.deposit(filled(pool, {2}, 1), first);
  CHECK(by.counters().bytes_handed == 15 * 4 + 2 * 4);
  CHECK(by.counters().bytes_copied == 0);
  CHECK(by.counters().tickets == 2);
  by.end_generation(first);
  CHECK_THROWS_AS(by.deposit(filled(pool, {2}, 1), first), cancelled);
  CHECK(by.counters().tickets == 2);  // a refused ticket does not count
}

TEST_CASE("threads deposit and redeem while a generation ends", "[transport]") {
  memory_pool pool;
  local_transport by(7);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0, redeemed = 0;
  for (int who = 0; who < 3; ++who)
    threads.emplace_back([&, who] {
      try {
        for (int i = 0;; ++i) {
          const auto t = by.deposit(filled(pool, {8}, float(who * 1000 + i % 1000)), first);
          const auto x = by.redeem(t);
          wrong += x.elements<float>()[7] != float(who * 1000 + i % 1000);
          ++redeemed;
        }
      } catch (const cancelled&) {
      }
    });
  while (redeemed < 300)
    std::this_thread::yield();
  by.end_generation(first);
  for (auto& t : threads)
    t.join();
  CHECK(wrong == 0);
  CHECK(by.leased() == 0);
  CHECK(pool.bytes_in_use() == 0);
}
