// The handshake without sockets: which peers are refused, and what they are told.

#include "runtime/transport/handshake.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstring>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string here = "127.0.0.1:40123";

handshake_terms terms(const std::string& secret = "secret") {
  return {.secret = secret, .run_id = "run", .build = "build", .process = 1, .address = here};
}

/// Both ends of a handshake, and their messages.
struct conversation {
  handshake caller, listener;
  std::vector<std::string> of_caller = {}, of_listener = {};

  /// Passes messages until both ends are silent.
  void run() {
    for (;;) {
      const auto there = caller.take_output();
      if (!there.empty()) {
        of_caller.push_back(there);
        listener.feed(there);
      }
      if (listener.awaits_payload())
        listener.welcome("listener's UCX");
      const auto back = listener.take_output();
      if (!back.empty()) {
        of_listener.push_back(back);
        caller.feed(back);
      }
      if (there.empty() && back.empty())
        return;
    }
  }
};

conversation between(const handshake_terms& caller,
                     const handshake_terms& listener,
                     const std::string& called = here) {
  return {handshake::calling(caller, called, random_bytes(), "caller's UCX"),
          handshake::answering(listener, random_bytes())};
}

std::string message(int kind, std::uint32_t announced, const std::string& body) {
  std::string out = "TRPH";
  out += char(kind);
  out.append(3, '\0');
  out.append(reinterpret_cast<const char*>(&announced), sizeof announced);
  return out + body;
}

}  // namespace

TEST_CASE("two processes of a run exchange their payloads, and all tokens differ", "[transport]") {
  auto x = between(terms(), terms());
  x.run();
  REQUIRE(x.caller.is_done());
  REQUIRE(x.listener.is_done());
  CHECK(x.caller.payload() == "listener's UCX");
  CHECK(x.listener.payload() == "caller's UCX");
  CHECK(x.caller.process() == 1);
  CHECK(x.caller.outgoing_token() == x.listener.incoming_token());
  CHECK(x.listener.outgoing_token() == x.caller.incoming_token());
  CHECK(x.caller.outgoing_token() != x.caller.incoming_token());
  CHECK(x.of_caller.size() == 3);
  CHECK(x.of_listener.size() == 2);
}

TEST_CASE("bytes can arrive one by one", "[transport]") {
  auto x = between(terms(), terms());
  const auto hand_on = [](handshake& from, handshake& to) {
    for (const char c : from.take_output())
      to.feed({&c, 1});
  };
  for (int i = 0; i < 3; ++i) {
    hand_on(x.caller, x.listener);
    if (x.listener.awaits_payload())
      x.listener.welcome("listener's UCX");
    hand_on(x.listener, x.caller);
  }
  CHECK(x.caller.is_done());
  CHECK(x.listener.is_done());
}

TEST_CASE("WIRE-1: a peer without the secret is refused without a reason and learns nothing",
          "[transport]") {
  auto x = between(terms("another"), terms());
  x.run();
  CHECK(x.listener.fault() == handshake_fault::wrong_secret);
  CHECK(x.caller.fault() == handshake_fault::refused);
  CHECK_THAT(x.caller.why(), ContainsSubstring("without a reason"));
  CHECK(x.of_listener.back() == message(6, 0, ""));
  for (const auto& said : x.of_listener)
    CHECK(said.find("run") == said.npos);
}

TEST_CASE("WIRE-2: a peer with the secret learns that its run, build, protocol or address is wrong",
          "[transport]") {
  auto mine = terms(), other = terms();
  std::string called = here, said;
  SECTION("another run") {
    other.run_id = "yesterday's";
    said = "belongs to the run 'yesterday's'";
  }
  SECTION("an older build") {
    other.build = "0.0.9";
    said = "of the build '0.0.9'";
  }
  SECTION("an older protocol") {
    other.protocol = 1;
    said = "version 1 of the wire's protocol";
  }
  SECTION("a wrong number") {
    called = "127.0.0.1:1";
    said = "tried to call '127.0.0.1:1'";
  }
  auto x = between(other, mine, called);
  x.run();
  CHECK(x.listener.has_failed());
  CHECK_THAT(x.listener.why(), ContainsSubstring(said));
  CHECK(x.caller.fault() == handshake_fault::refused);
  CHECK_THAT(x.caller.why(), ContainsSubstring(said));

  other.secret = "another";
  auto stranger = between(other, mine, called);
  stranger.run();
  CHECK(stranger.caller.fault() == handshake_fault::refused);
  CHECK_THAT(stranger.caller.why(), !ContainsSubstring(said));
}

TEST_CASE("WIRE-1: a replay of valid bytes is refused", "[transport]") {
  auto x = between(terms(), terms());
  x.run();
  REQUIRE(x.listener.is_done());
  auto again = handshake::answering(terms(), random_bytes());
  for (const auto& said : x.of_caller)
    again.feed(said);
  CHECK(again.fault() == handshake_fault::wrong_secret);

  auto caller = handshake::calling(terms(), here, random_bytes(), "caller's UCX");
  for (const auto& said : x.of_listener)
    caller.feed(said);
  CHECK(caller.fault() == handshake_fault::wrong_secret);
}

TEST_CASE("WIRE-1: a process's own bytes sent back to it are refused", "[transport]") {
  // An attacker without the secret lets a process answer its own challenge, in both roles.
  auto caller = handshake::calling(terms(), here, random_bytes(), "caller's UCX");
  const auto hello = caller.take_output();
  caller.feed(message(2, 32, hello.substr(12)));  // its own nonce as the peer's
  const auto claim = caller.take_output();
  caller.feed(message(4, std::uint32_t(claim.size() - 12), claim.substr(12)));
  CHECK(caller.fault() == handshake_fault::wrong_secret);
}

TEST_CASE("a claim with any changed bit is refused", "[transport]") {
  const auto nonce = random_bytes();
  auto caller = handshake::calling(terms(), here, random_bytes(), "caller's UCX");
  const auto hello = caller.take_output();
  auto listener = handshake::answering(terms(), nonce);
  listener.feed(hello);
  caller.feed(listener.take_output());
  const auto claim = caller.take_output();
  for (std::size_t at = 0; at < claim.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      auto changed = claim;
      changed[at] = char(changed[at] ^ (1 << bit));
      auto one = handshake::answering(terms(), nonce);
      one.feed(hello);
      one.feed(changed);
      CHECK_FALSE(one.awaits_payload());
    }
  listener.feed(claim);
  CHECK(listener.awaits_payload());
}

TEST_CASE("WIRE-3: an impossible length is refused before its bytes arrive", "[transport]") {
  auto one = handshake::answering(terms(), random_bytes());
  SECTION("first message") {
    one.feed(message(1, 0xffffffff, ""));
  }
  SECTION("claim") {
    one.feed(message(1, 32, std::string(32, 'n')));
    one.feed(message(3, 1u << 20, ""));
  }
  CHECK(one.fault() == handshake_fault::too_long);
  CHECK_THAT(one.why(), ContainsSubstring("announced"));
}

TEST_CASE("an invalid or unexpected message is refused", "[transport]") {
  auto one = handshake::answering(terms(), random_bytes());
  const auto [bytes, fault] = GENERATE(table<std::string, handshake_fault>(
      {{"GET / HTTP/1.1\r\n", handshake_fault::nonsense},
       {message(0, 32, ""), handshake_fault::nonsense},
       {message(7, 32, ""), handshake_fault::nonsense},
       {message(1, 31, ""), handshake_fault::nonsense},
       {"TRPH\1\1\1\1....", handshake_fault::nonsense},
       {message(2, 32, std::string(32, 'n')), handshake_fault::out_of_turn},
       {message(5, 32, std::string(32, 'n')), handshake_fault::out_of_turn},
       {message(6, 0, ""), handshake_fault::out_of_turn}}));
  one.feed(bytes);
  CHECK(one.fault() == fault);
  one.feed("anything");  // the fault stays
  CHECK(one.fault() == fault);
}
