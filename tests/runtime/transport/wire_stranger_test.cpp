// A transport and its peers when a stranger sends invalid messages.

#include "tests/support/soon.hpp"
#include "tests/support/wire_peers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <arpa/inet.h>
#include <cstring>
#include <netinet/in.h>
#include <random>
#include <sys/socket.h>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a partly redeemed tensor is released with its redeemer and refused to others",
          "[transport]") {
  memory_pool pool;
  wire_transport by({.process = 1}, by_ucx);
  by.deposit(numbered(pool, 1000), now);
  const auto first_bytes
      = bytes_of(wire_message{.what = ticket_of(1, 1000), .fetch = 1, .begin = 0, .end = 100});
  {
    stranger some, another;
    some.send(some.call(by.address().where), first_bytes);
    REQUIRE(tests::soon([&] { return some.heard().size() == 1; }));
    CHECK(by.leased() == 1);
    another.send(another.call(by.address().where), first_bytes);
    REQUIRE(tests::soon([&] { return another.heard().size() == 1; }));
    CHECK(some.heard()[0].verb == wire_verb::part);
    CHECK(another.heard()[0].verb == wire_verb::refusal);
    CHECK(another.heard()[0].reason == wire_reason::redeemed);
  }
  CHECK(tests::soon([&] { return by.leased() == 0; }));
  CHECK(by.counters().dropped == 1);
  CHECK(tests::soon([&] { return pool.bytes_in_use() == 0; }));
}

TEST_CASE("a transport closes while others send requests and invalid messages", "[transport]") {
  memory_pool pool;
  for (int i = 0; i < 40; ++i) {
    CAPTURE(i);
    stranger some;
    std::atomic<bool> over = false, talks_nonsense = false;
    std::thread asking;
    {
      wire_transport by({.process = 1}, by_ucx);
      by.deposit(numbered(pool, 10), now);
      const auto to = some.call(by.address().where);
      auto message
          = bytes_of(wire_message{.what = ticket_of(1, 10), .fetch = 1, .begin = 0, .end = 40});
      some.send(to, message);
      REQUIRE(tests::soon([&] { return some.heard().size() == 1; }));
      asking = std::thread([&, to, message]() mutable {
        while (!over) {
          message[0] = std::byte(talks_nonsense ? 1 : 'T');
          for (int k = 0; k < 100; ++k)
            some.send(to, message);
          std::this_thread::yield();
        }
      });
      CHECK(tests::soon([&] { return some.heard().size() > 5; }));
      talks_nonsense = i % 2 == 1;
    }
    over = true;
    asking.join();
  }
}

TEST_CASE("a peer that sends bytes for memory out of the CPU's reach is disconnected",
          "[transport]") {
  struct device_owner final : wire_owner {
    std::atomic<int> not_there = 0, lost_ones = 0;
    std::vector<std::byte> memory = std::vector<std::byte>(1000);
    landing arrived(peer_number, std::span<const std::byte>, std::size_t) override {
      return {memory.data(), nullptr, [this](bool there) { not_there += !there; }, true};
    }
    void lost(peer_number, const std::string&) override { ++lost_ones; }
  } owner;
  const auto by = make_ucx_wire(owner, settings_without_secret());
  by->start();
  CHECK_FALSE(by->takes_device_memory());
  stranger some;
  some.send(some.call(by->address()), {}, numbered({}, 100));
  CHECK(tests::soon([&] { return owner.lost_ones == 1; }));
  CHECK(owner.not_there == 1);
  by->stop();
  CHECK(owner.memory == std::vector<std::byte>(1000));
}

TEST_CASE("a stranger that sends an invalid message is disconnected, and the others go on",
          "[transport]") {
  memory_pool pool;
  wire_transport by({.process = 1}, by_ucx), there({.process = 2}, by_ucx);
  there.introduce(by.address());
  there.redeem(by.deposit(numbered(pool, 10), now));
  stranger some;
  const auto to = some.call(by.address().where);
  auto header = bytes_of(wire_message{.what = ticket_of(1, 10), .fetch = 1, .begin = 0, .end = 40});
  std::size_t bytes = 0;
  SECTION("an empty message") {
    header.clear();
  }
  SECTION("too short") {
    header.pop_back();
  }
  SECTION("too long") {
    header.resize(5000);
  }
  SECTION("another magic number") {
    header[0] = std::byte(1);
  }
  SECTION("another version") {
    header[4] = std::byte(99);
  }
  SECTION("an unknown verb") {
    header[6] = std::byte(7);
  }
  SECTION("an impossible number of dimensions") {
    header[88] = std::byte(200);
  }
  SECTION("a range beyond the end") {
    header[48] = std::byte(41);
  }
  SECTION("an empty range of a tensor") {
    header[48] = std::byte(0);
  }
  SECTION("a request with bytes") {
    bytes = 40;
  }
  SECTION("a request with many bytes") {
    bytes = 10'000'000;
  }
  some.send(to, header, bytes);
  CHECK(tests::soon([&] { return some.is_cut_off(); }));
  CHECK(by.counters().refused == 1);
  CHECK(there.redeem(by.deposit(numbered(pool, 20), now)).size() == 20);
}

TEST_CASE("repeated or overlapping parts do not complete a tensor", "[transport]") {
  wire_transport by({.process = 1}, by_ucx);
  stranger some;
  by.introduce({7, some.address()});
  auto waiting = redeeming(by, ticket_of(7, 100));
  REQUIRE(tests::soon([&] { return some.heard().size() == 1; }));
  auto part = some.heard()[0];
  part.verb = wire_verb::part;
  const auto send = [&](std::uint64_t begin, std::uint64_t end) {
    part.begin = begin;
    part.end = end;
    some.send(some.caller(), bytes_of(part), end - begin);
  };
  send(0, 200);
  send(0, 200);
  send(199, 399);
  CHECK(tests::soon([&] { return by.counters().refused == 2; }));
  CHECK(waits(waiting));
  send(200, 400);
  REQUIRE(is_ready(waiting));
  CHECK(waiting.get() == "");
  CHECK(by.counters().refused == 2);
}

TEST_CASE("a range is sent once; a repeated request does not end the lease", "[transport]") {
  memory_pool pool;
  wire_transport by({.process = 1}, by_ucx);
  by.deposit(numbered(pool, 100), now);
  stranger some;
  const auto to = some.call(by.address().where);
  const auto ask = [&](std::uint64_t begin, std::uint64_t end) {
    const auto before = some.heard().size();
    some.send(
        to,
        bytes_of(wire_message{.what = ticket_of(1, 100), .fetch = 1, .begin = begin, .end = end}));
    REQUIRE(tests::soon([&] { return some.heard().size() > before; }));
    return some.heard().back().verb;
  };
  CHECK(ask(0, 200) == wire_verb::part);
  CHECK(ask(0, 200) == wire_verb::refusal);
  CHECK(ask(100, 300) == wire_verb::refusal);
  CHECK(by.leased() == 1);
  CHECK(ask(200, 400) == wire_verb::part);
  CHECK(by.leased() == 0);
}

TEST_CASE("unrequested parts are refused", "[transport]") {
  memory_pool pool;
  wire_transport by({.process = 1}, by_ucx);
  stranger some;
  by.introduce({7, some.address()});
  auto waiting = redeeming(by, ticket_of(7, 100));
  REQUIRE(tests::soon([&] { return some.heard().size() == 1; }));
  auto part = some.heard()[0];
  part.verb = wire_verb::part;
  auto sent = [&](const wire_message& x, std::size_t bytes) {
    const auto before = by.counters().refused.load();
    some.send(some.caller(), bytes_of(x), bytes);
    return tests::soon([&] { return by.counters().refused > before; });
  };
  auto wrong = part;
  wrong.fetch += 1;
  CHECK(sent(wrong, 400));
  wrong = part;
  wrong.what.generation = generation_id(0);
  CHECK(sent(wrong, 400));
  wrong = part;
  wrong.what.type = dtype::f32;
  CHECK(sent(wrong, 400));
  wrong = part;
  wrong.what.extents = {1000};
  wrong.end = 4000;
  CHECK(sent(wrong, 4000));
  CHECK(waits(waiting));
  some.send(some.caller(), bytes_of(part), 400);
  REQUIRE(is_ready(waiting));
  CHECK(waiting.get() == "");
  CHECK(sent(part, 400));  // twice
}

TEST_CASE("messages with any changed byte are read or refused, within their stated size",
          "[transport]") {
  std::mt19937 random(4);
  const auto whole = bytes_of(wire_message{
      .what = {1, 2, now, dtype::bf16, {3, 5, 7}}, .fetch = 9, .begin = 2, .end = 210});
  REQUIRE(std::get<wire_message>(read_message(whole)).what.extents == shape{3, 5, 7});
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (int k = 0; k < 256; ++k) {
      auto header = whole;
      header[at] = std::byte(k);
      const auto read = read_message(header);
      if (const auto* const x = std::get_if<wire_message>(&read)) {
        CHECK(bytes_of(*x) == header);
        CHECK(x->end <= bytes_of(x->what).value());
      }
    }
}

TEST_CASE("a caller that does not speak UCX does not disturb the others", "[transport]") {
  memory_pool pool;
  wire_transport by({.process = 1}, by_ucx), there({.process = 2}, by_ucx);
  there.introduce(by.address());
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto where = by.address().where;
  at.sin_port = htons(std::uint16_t(std::stoi(where.substr(where.rfind(':') + 1))));
  std::mt19937 random(8);
  for (const std::size_t bytes : {0u, 1u, 7u, 16u, 100u, 4096u, 100'000u}) {
    const int end = ::socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(::connect(end, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    std::vector<char> text(bytes);
    for (auto& c : text)
      c = char(random());
    [[maybe_unused]] const auto sent = ::send(end, text.data(), text.size(), MSG_NOSIGNAL);
    ::shutdown(end, SHUT_WR);
    CHECK(is_ready(*std::make_unique<std::future<std::string>>(
        redeeming(there, by.deposit(numbered(pool, 100), now)))));
    ::close(end);
  }
  CHECK(there.redeem(by.deposit(numbered(pool, large), now)).size() == large);
}
