// Loans: tensors that a redeemer on the same host reads in the holder's memory.

#include "runtime/transport/lent_memory.hpp"
#include "runtime/transport/process_memory.hpp"
#include "tests/support/child.hpp"
#include "tests/support/refused_memory.hpp"
#include "tests/support/soon.hpp"
#include "tests/support/wire_peers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>
#include <atomic>
#include <future>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::int64_t lent = 100'000;  // elements: too many to be sent inline

wire_transport_settings sharing(std::uint64_t process) {
  return {.process = process, .shares_memory = true};
}

struct sharing_pair {
  memory_pool pool;
  wire_transport here{sharing(1), by_ucx}, there{sharing(2), by_ucx};

  sharing_pair() {
    here.introduce(there.address());
    there.introduce(here.address());
  }
};

bool counts_up(const tensor& x) {
  std::int32_t expected = 0;
  for (const auto v : x.elements<std::int32_t>())
    if (v != expected++)
      return false;
  return true;
}

/// Requests the first ticket of `by` as a peer that can read its memory.
struct borrower {
  stranger self;
  peer_number to;
  wire_message asked;

  borrower(const wire_transport& by, std::int64_t n)
      : to(self.call(by.address().where)),
        asked({.what = ticket_of(1, n),
               .fetch = 7,
               .begin = 0,
               .end = std::uint64_t(n) * 4,
               .asker = 2,
               .reads_on = memory_host_number()}) {
    self.send(to, bytes_of(asked));
  }
  wire_message hears(std::size_t which = 0) {
    REQUIRE(soon([&] { return self.heard().size() > which; }));
    return self.heard()[which];
  }
  void says(wire_verb verb) {
    auto said = asked;
    said.verb = verb;
    said.reads_on = 0;
    self.send(to, bytes_of(said));
  }
};

lent_bytes look_at(const lent_place& x) {
  std::vector<std::byte> into(400);
  return read_lent(x, 0, into).bytes;
}

/// The loan message that a holder answers with.
wire_message loan_of(wire_message asked, const lent_place& place) {
  asked.verb = wire_verb::loan;
  asked.reads_on = 0;
  asked.place = place;
  return asked;
}

}  // namespace

TEST_CASE("a tensor of another process on this host is read in place, and its lease ends",
          "[transport]") {
  sharing_pair two;
  const std::int64_t n = GENERATE(8192, 65'537, 5'000'011);
  const auto y = two.here.redeem(two.there.deposit(numbered(two.pool, n), now));
  CHECK(counts_up(y));
  CHECK(two.here.counters().bytes_read == std::uint64_t(n) * 4);
  CHECK(two.there.leased() == 0);
  CHECK(soon([&] { return two.pool.bytes_in_use() == 0; }));
}

TEST_CASE("small tensors are sent inline with the answer", "[transport]") {
  sharing_pair two;
  const std::int64_t n = GENERATE(0, 1, 8191);
  CHECK(counts_up(two.here.redeem(two.there.deposit(numbered(two.pool, n), now))));
  CHECK(two.here.counters().bytes_read == 0);
}

TEST_CASE("without shared memory on both sides the bytes are sent", "[transport]") {
  memory_pool pool;
  const bool one_shares = GENERATE(false, true);
  wire_transport here({.process = 1, .shares_memory = one_shares}, by_ucx),
      there({.process = 2, .shares_memory = !one_shares}, by_ucx);
  here.introduce(there.address());
  CHECK(counts_up(here.redeem(there.deposit(numbered(pool, lent), now))));
  CHECK(here.counters().bytes_read == 0);
}

TEST_CASE("a tensor is read from a real process, and sent if the system refuses the read",
          "[transport]") {
  const bool refuses = GENERATE(false, true);
  child other({peer_program(), "lend", std::to_string(lent)});
  wire_transport by(sharing(1), by_ucx);
  by.introduce({2, other.line()});
  bool same = false;
  std::thread([&] {
    if (refuses)
      refuse_memory_of_others();
    same = counts_up(by.redeem(ticket_of(2, lent)));
  }).join();
  CHECK(same);
  CHECK(by.counters().bytes_read == (refuses ? 0u : std::uint64_t(lent) * 4));
  CHECK(by.counters().bytes_copied == std::uint64_t(lent) * 4);
}

TEST_CASE("after one refused read, later requests ask for bytes", "[transport]") {
  sharing_pair two;
  std::thread([&] {
    refuse_memory_of_others();
    two.here.redeem(two.there.deposit(numbered(two.pool, lent), now));
  }).join();
  CHECK(counts_up(two.here.redeem(two.there.deposit(numbered(two.pool, lent), now))));
  CHECK(two.here.counters().bytes_read == 0);
  CHECK(soon([&] { return two.pool.bytes_in_use() == 0; }));
}

TEST_CASE("lent memory stays until its redeemer has read it, even after the generation",
          "[transport]") {
  memory_pool pool;
  wire_transport by(sharing(1), by_ucx);
  by.deposit(numbered(pool, lent), now);
  borrower some(by, lent);
  const auto loan = some.hears();
  REQUIRE(loan.verb == wire_verb::loan);
  CHECK(by.leased() == 0);
  by.end_generation(now);
  CHECK(look_at(loan.place) == lent_bytes::there);
  CHECK(pool.bytes_in_use() > 0);
  SECTION("the redeemer confirms") {
    some.says(wire_verb::taken);
  }
  SECTION("its connection is lost") {
    some.self.close(some.to);
  }
  CHECK(soon([&] { return pool.bytes_in_use() == 0; }));
  CHECK(look_at(loan.place) == lent_bytes::gone);
}

TEST_CASE("a redeemer that cannot read a loan gets the bytes", "[transport]") {
  memory_pool pool;
  wire_transport by(sharing(1), by_ucx);
  by.deposit(numbered(pool, lent), now);
  borrower some(by, lent);
  const auto loan = some.hears();
  some.says(wire_verb::unread);
  CHECK(some.hears(1).verb == wire_verb::part);
  CHECK(look_at(loan.place) == lent_bytes::gone);
  some.says(wire_verb::unread);  // the loan has ended
  CHECK(some.hears(2).verb == wire_verb::refusal);
  some.says(wire_verb::taken);
  CHECK(soon([&] { return pool.bytes_in_use() == 0; }));
}

TEST_CASE("LOAN-1: bytes read after the end of a loan are not used", "[transport]") {
  lender of;
  const auto bytes = std::make_shared<std::array<std::byte, 400>>();
  const auto first = of.lend(peer_number(1), 1, bytes->data(), bytes);
  CHECK(look_at(first) == lent_bytes::there);
  SECTION("it was ended") {
    CHECK(of.end(peer_number(1), 1) == bytes);
    CHECK(of.end(peer_number(1), 1) == nullptr);
  }
  SECTION("its peer was lost") {
    of.lend(peer_number(2), 1, bytes->data(), bytes);
    of.end_all(peer_number(1));
    CHECK(of.size() == 1);
  }
  SECTION("the same peer has a new loan of the same number") {
    CHECK(look_at(of.lend(peer_number(1), 1, bytes->data(), bytes)) == lent_bytes::there);
  }
  CHECK(look_at(first) == lent_bytes::gone);
  const auto next = of.lend(peer_number(1), 2, bytes->data(), bytes);  // reuses a guard
  CHECK(next.serial != first.serial);
  CHECK(look_at(first) == lent_bytes::gone);
}

TEST_CASE("LOAN-1: a redeemer reports a lost peer after its holder ended the loan", "[transport]") {
  lender of;
  const auto bytes = std::make_shared<std::vector<std::byte>>(lent * 4);
  stranger holder;
  std::atomic<int> broke = 0;
  auto settings = sharing(1);
  settings.broke = [&](std::uint64_t process, generation_id in, const std::string&) {
    broke += process == 2 && in == now ? 1 : 100;
  };
  wire_transport by(settings, by_ucx);
  by.introduce({2, holder.address()});
  auto waiting = redeeming(by, ticket_of(2, lent));
  REQUIRE(soon([&] { return !holder.heard().empty(); }));
  CHECK(holder.heard()[0].reads_on == memory_host_number());
  const auto place = of.lend(peer_number(1), 1, bytes->data(), bytes);
  const bool lets_go = GENERATE(true, false);
  if (lets_go)
    of.end(peer_number(1), 1);
  holder.send(holder.caller(), bytes_of(loan_of(holder.heard()[0], place)));
  REQUIRE(is_ready(waiting));
  const auto failure = waiting.get();
  if (lets_go)
    CHECK_THAT(failure, ContainsSubstring("it was released"));
  else
    CHECK(failure.empty());
  CHECK(by.counters().bytes_read == (lets_go ? 0u : std::uint64_t(lent) * 4));
  REQUIRE(soon([&] { return holder.heard().size() == 2; }));
  CHECK(holder.heard()[1].verb == wire_verb::taken);
  // Then the connection breaks. No redeem waits any more. With lets_go the redeem missed its loan,
  // so the loss is still reported.
  CHECK(broke == 0);
  holder.close(holder.caller());
  if (lets_go) {
    CHECK(soon([&] { return broke == 1; }));
    CHECK_THROWS_AS(by.redeem(ticket_of(2, 7)), peer_lost);
  }
}

TEST_CASE("if the system refuses a read of a living holder, the bytes are sent", "[transport]") {
  lender of;
  const auto guarded = std::make_shared<int>(0);
  void* const nowhere = ::mmap(nullptr, lent * 4, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(nowhere != MAP_FAILED);
  memory_pool pool;
  stranger holder;
  wire_transport by(sharing(1), by_ucx);
  by.introduce({2, holder.address()});
  auto waiting = redeeming(by, ticket_of(2, lent));
  REQUIRE(soon([&] { return !holder.heard().empty(); }));
  const auto asked = holder.heard()[0];
  const auto place = of.lend(peer_number(1), 1, static_cast<const std::byte*>(nowhere), guarded);
  holder.send(holder.caller(), bytes_of(loan_of(asked, place)));
  REQUIRE(soon([&] { return holder.heard().size() == 2; }));
  CHECK(holder.heard()[1].verb == wire_verb::unread);
  auto part = asked;
  part.verb = wire_verb::part;
  part.reads_on = 0;
  holder.send(holder.caller(), bytes_of(part), numbered(pool, lent));
  REQUIRE(is_ready(waiting));
  CHECK(waiting.get().empty());
  CHECK(by.counters().bytes_read == 0);
  CHECK(by.counters().bytes_copied == std::uint64_t(lent) * 4);
  ::munmap(nowhere, lent * 4);
}

TEST_CASE("a loan for a cancelled redeem is returned", "[transport]") {
  stranger holder;
  wire_transport by(sharing(1), by_ucx);
  by.introduce({2, holder.address()});
  const cancel_token token;
  auto waiting = redeeming(by, ticket_of(2, lent), token);
  REQUIRE(soon([&] { return !holder.heard().empty(); }));
  token.cancel();
  REQUIRE(is_ready(waiting));
  holder.send(holder.caller(),
              bytes_of(loan_of(holder.heard()[0], {.pid = 1, .at = 1, .guard = 1, .serial = 1})));
  REQUIRE(soon([&] { return holder.heard().size() == 2; }));
  CHECK(holder.heard()[1].verb == wire_verb::taken);
}

TEST_CASE("a loan that arrives before the redeem is cancelled is returned", "[transport]") {
  stranger silent, holder;
  wire_transport by(sharing(1), by_ucx);
  by.introduce({2, silent.address()});
  by.introduce({3, holder.address()});
  const cancel_token token;
  const std::array tickets{ticket_of(2, lent), ticket_of(3, lent)};
  auto waiting = std::async(std::launch::async, [&] {
    try {
      by.redeem_all(tickets, {.until = token});
      return false;
    } catch (const cancelled&) {
      return true;
    }
  });
  REQUIRE(soon([&] { return !holder.heard().empty() && !silent.heard().empty(); }));
  const auto loan = loan_of(holder.heard()[0], {.pid = 1, .at = 1, .guard = 1, .serial = 1});
  holder.send(holder.caller(), bytes_of(loan));
  // Messages of a connection arrive in order: an answer to the second means that the first arrived.
  auto unasked = loan;
  ++unasked.fetch;
  holder.send(holder.caller(), bytes_of(unasked));
  REQUIRE(soon([&] { return holder.heard().size() == 2; }));
  CHECK(holder.heard()[1].fetch == unasked.fetch);
  token.cancel();
  CHECK(waiting.get());
  REQUIRE(soon([&] { return holder.heard().size() == 3; }));
  CHECK(holder.heard()[2].verb == wire_verb::taken);
  CHECK(holder.heard()[2].fetch == loan.fetch);
}
