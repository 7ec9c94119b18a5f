// Two transports over UCX on loopback, as in two processes.

#include "runtime/transport/wire_transport.hpp"

#include "runtime/core/error.hpp"
#include "runtime/transport/ucx_wire.hpp"
#include "tests/support/soon.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

using namespace troupe;
using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr generation_id now{3};

std::unique_ptr<wire> by_ucx(wire_owner& owner) {
  return make_ucx_wire(owner, settings_without_secret());
}

tensor numbered(memory_pool pool, std::int64_t n, int seed = 0) {
  tensor out(pool.allocate(std::size_t(n) * sizeof(std::int32_t)), dtype::i32, {n});
  std::iota(out.data<std::int32_t>(), out.data<std::int32_t>() + n, seed);
  return out;
}

bool is_numbered(const tensor& x, int seed = 0) {
  for (const auto v : x.elements<std::int32_t>())
    if (v != seed++)
      return false;
  return true;
}

struct pair_of_transports {
  memory_pool pool;
  wire_transport here{{.process = 1}, by_ucx}, there{{.process = 2}, by_ucx};

  pair_of_transports() {
    here.introduce(there.address());
    there.introduce(here.address());
  }
};

}  // namespace

TEST_CASE("a tensor of any size arrives from another process, and its lease ends", "[transport]") {
  pair_of_transports two;
  const std::int64_t n = GENERATE(0, 1, 3, 1021, 16384, 65537, 5'000'011);
  CAPTURE(n);
  const auto x = two.there.deposit(numbered(two.pool, n, 5), now);
  CHECK(two.there.leased() == 1);
  const auto y = two.here.redeem(x);
  CHECK(y.type() == dtype::i32);
  CHECK(y.extents() == shape{n});
  CHECK(is_numbered(y, 5));
  CHECK(two.there.leased() == 0);
  CHECK(two.here.counters().bytes_copied == std::uint64_t(n) * 4);
  CHECK(tests::soon([&] { return two.pool.bytes_in_use() == 0; }));
}

TEST_CASE("shape and type arrive unchanged", "[transport]") {
  pair_of_transports two;
  tensor x(two.pool.allocate(2 * 3 * 5 * 2), dtype::bf16, {2, 3, 1, 5});
  for (std::size_t i = 0; i < x.bytes(); ++i)
    x.raw()[i] = std::byte(i * 7);
  const auto y = two.here.redeem(two.there.deposit(x, now));
  CHECK(y.type() == dtype::bf16);
  CHECK(y.extents() == shape{2, 3, 1, 5});
  CHECK(std::memcmp(x.raw(), y.raw(), x.bytes()) == 0);
}

TEST_CASE("tickets of several processes are redeemed together; own tensors are not copied",
          "[transport]") {
  pair_of_transports two;
  wire_transport third({.process = 3}, by_ucx);
  two.here.introduce(third.address());
  const auto own = numbered(two.pool, 9, 1);
  const std::vector tickets{two.there.deposit(numbered(two.pool, 100'000, 2), now),
                            two.here.deposit(own, now),
                            third.deposit(numbered(two.pool, 77, 3), now)};
  const auto out = two.here.redeem_all(tickets, {});
  CHECK(is_numbered(out[0], 2));
  CHECK(out[1].raw() == own.raw());
  CHECK(is_numbered(out[2], 3));
}

TEST_CASE("own tickets are checked like those of other processes", "[transport]") {
  memory_pool pool;
  wire_transport by({.process = 1}, by_ucx);
  const auto x = by.deposit(numbered(pool, 10), now);
  auto wrong = x;
  SECTION("extents") {
    wrong.extents = {5, 2};
  }
  SECTION("type") {
    wrong.type = dtype::f32;
  }
  SECTION("generation") {
    wrong.generation = next(now);
  }
  CHECK_THROWS_WITH(by.redeem(wrong), ContainsSubstring("TICKET-3"));
  CHECK(is_numbered(by.redeem(x)));
  CHECK_THROWS_WITH(by.redeem(x), ContainsSubstring("HANDOFF-2"));
}

TEST_CASE("a withdrawn ticket cannot be redeemed over a wire", "[transport]") {
  pair_of_transports two;
  const auto own = two.there.deposit(numbered(two.pool, 10), now),
             other = two.there.deposit(numbered(two.pool, 10), now);
  two.there.take_back(std::array{own, other});
  CHECK_THROWS_AS(two.there.redeem(own), cancelled);
  CHECK_THROWS_AS(two.here.redeem(other), cancelled);
}

TEST_CASE("own tickets go over the wire on request", "[transport]") {
  memory_pool pool;
  wire_transport by({.process = 1, .through_the_wire = true}, by_ucx);
  const auto x = numbered(pool, 70'001, 4);
  const auto y = by.redeem(by.deposit(x, now));
  CHECK(y.raw() != x.raw());
  CHECK(is_numbered(y, 4));
  CHECK(by.leased() == 0);
}

TEST_CASE("HANDOFF-2: a ticket of another process is redeemed exactly once", "[transport]") {
  pair_of_transports two;
  const auto x = two.there.deposit(numbered(two.pool, 10), now);
  two.here.redeem(x);
  CHECK_THROWS_WITH(two.here.redeem(x), ContainsSubstring("HANDOFF-2"));
}

TEST_CASE("TICKET-3: a ticket matches the leased tensor", "[transport]") {
  pair_of_transports two;
  const auto x = two.there.deposit(numbered(two.pool, 10), now);
  auto wrong = x;
  SECTION("extents") {
    wrong.extents = {5, 2};
  }
  SECTION("type") {
    wrong.type = dtype::f32;
  }
  SECTION("generation") {
    wrong.generation = next(now);
  }
  CHECK_THROWS_WITH(two.here.redeem(wrong), ContainsSubstring("TICKET-3"));
  CHECK(is_numbered(two.here.redeem(x)));
}

TEST_CASE("a ticket with impossible extents is refused before memory is allocated", "[transport]") {
  pair_of_transports two;
  const auto extents = GENERATE(shape{-1}, shape{1ll << 40, 1ll << 40}, shape{0, -3});
  const ticket x{2, 1, now, dtype::f64, extents};
  CHECK_THROWS_WITH(two.here.redeem(x), ContainsSubstring("do not fit into memory"));
}

TEST_CASE("a ticket of an unknown or absent process is an error", "[transport]") {
  pair_of_transports two;
  CHECK_THROWS_WITH(two.here.redeem({9, 1, now, dtype::i32, {1}}),
                    ContainsSubstring("the address of process 9 is unknown"));
  two.here.introduce({9, "127.0.0.1:9"});
  CHECK_THROWS_AS(two.here.redeem({9, 1, now, dtype::i32, {1}}), io_error);
  two.here.introduce({10, "nowhere"});
  CHECK_THROWS_WITH(two.here.redeem({10, 1, now, dtype::i32, {1}}),
                    ContainsSubstring("'nowhere' is not a numeric address"));
  two.here.introduce({11, two.there.address().where});
  CHECK_THROWS_WITH(two.here.redeem({11, 1, now, dtype::i32, {1}}),
                    ContainsSubstring("another process answers"));
}

TEST_CASE("tickets of an ended generation are refused on both sides", "[transport]") {
  pair_of_transports two;
  const auto x = two.there.deposit(numbered(two.pool, 1000), now);
  SECTION("the holder's generation") {
    two.there.end_generation(now);
  }
  SECTION("the redeemer's generation") {
    two.here.end_generation(now);
  }
  CHECK_THROWS_AS(two.here.redeem(x), cancelled);
  two.there.end_generation(now);
  CHECK(two.there.leased() == 0);
  CHECK(two.there.counters().dropped == 1);
  CHECK(two.pool.bytes_in_use() == 0);
  CHECK_THROWS_AS(two.there.deposit(numbered(two.pool, 1), now), cancelled);
  const auto y = two.there.deposit(numbered(two.pool, 8), next(now));
  if (two.here.counters().refused == 0)
    CHECK(is_numbered(two.here.redeem(y)));
}

TEST_CASE("many tensors in flight between threads arrive at the right place", "[transport]") {
  pair_of_transports two;
  constexpr int threads = 4, rounds = 40;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      auto& from = t % 2 ? two.here : two.there;
      auto& to = t % 2 ? two.there : two.here;
      for (int i = 0; i < rounds; ++i) {
        std::vector<ticket> tickets;
        for (int k = 0; k < 5; ++k)
          tickets.push_back(from.deposit(
              numbered(two.pool, (t * 977 + i * 131 + k * 7919) % 40'000, t * i + k), now));
        const auto out = to.redeem_all(tickets, {});
        for (int k = 0; k < 5; ++k)
          wrong += !is_numbered(out[std::size_t(k)], t * i + k);
      }
    });
  for (auto& x : all)
    x.join();
  CHECK(wrong == 0);
  CHECK(two.here.leased() + two.there.leased() == 0);
  CHECK(tests::soon([&] { return two.pool.bytes_in_use() == 0; }));
}
