// What becomes of waits and leases when others die, hang, are cancelled or talk nonsense.

#include "runtime/core/error.hpp"
#include "runtime/transport/ucx_wire.hpp"
#include "runtime/transport/wire_transport.hpp"
#include "tests/support/child.hpp"
#include "tests/support/places.hpp"
#include "tests/support/soon.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <arpa/inet.h>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <netinet/in.h>
#include <numeric>
#include <random>
#include <sys/socket.h>

using namespace troupe;
using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr generation_id now{1};
constexpr std::int64_t large = 4'000'000;

std::unique_ptr<wire> by_ucx(wire_owner& owner) {
  return make_ucx_wire(owner);
}

std::string peer_program() {
  return troupe::tests::bin_dir() + "/transport_peer";
}

ticket ticket_of(std::uint64_t holder, std::int64_t n) {
  return {holder, 1, now, dtype::i32, {n}};
}

tensor numbered(memory_pool pool, std::int64_t n) {
  tensor out(pool.allocate(std::size_t(n) * sizeof(std::int32_t)), dtype::i32, {n});
  std::iota(out.data<std::int32_t>(), out.data<std::int32_t>() + n, 0);
  return out;
}

/// What a redemption on another thread ended with; empty: the tensor.
std::future<std::string> redeeming(wire_transport& by, const ticket& x, cancel_token token = {}) {
  return std::async(std::launch::async, [&by, x, token]() -> std::string {
    try {
      by.redeem(x, {.until = token});
      return "";
    } catch (const std::exception& failure) {
      return failure.what();
    }
  });
}

bool is_ready(std::future<std::string>& x) {
  return x.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
}
bool waits(std::future<std::string>& x) {
  return x.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout;
}

/// A stranger who sends what he likes.
class stranger final : public wire_owner {
 public:
  stranger() : wire_(make_ucx_wire(*this)) { wire_->start(); }
  ~stranger() override { wire_.reset(); }

  peer_number call(const std::string& address) { return wire_->connect(address); }
  void send(peer_number to, std::vector<std::byte> header, std::size_t bytes = 0) {
    const auto data = std::make_shared<std::vector<std::byte>>(bytes);
    wire_->send(to, {std::move(header), *data, data});
  }
  void send(peer_number to, std::vector<std::byte> header, const tensor& x) {
    wire_->send(to, {std::move(header), {x.raw(), x.bytes()}, x.block()});
  }
  std::string address() const { return wire_->address(); }
  bool is_cut_off() const { return lost_ > 0; }
  std::vector<wire_message> heard() const {
    const std::lock_guard lock(mutex_);
    return heard_;
  }
  peer_number caller() const { return caller_; }

 private:
  landing arrived(peer_number from, std::span<const std::byte> header, std::size_t) override {
    const auto read = read_message(header);
    const std::lock_guard lock(mutex_);
    caller_ = from;
    if (const auto* const x = std::get_if<wire_message>(&read))
      heard_.push_back(*x);
    return {};
  }
  void lost(peer_number, const std::string&) override { ++lost_; }

  mutable std::mutex mutex_;
  std::vector<wire_message> heard_;
  std::atomic<peer_number> caller_ = {};
  std::atomic<int> lost_ = 0;
  std::unique_ptr<wire> wire_;
};

}  // namespace

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

TEST_CASE("what a redeemer had begun to take is released with him, and of no other's use",
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

TEST_CASE("a transport is closed while others ask it and talk nonsense", "[transport]") {
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

TEST_CASE("what the CPU cannot write is not written: a peer that sends it along is cut off",
          "[transport]") {
  struct device_owner final : wire_owner {
    std::atomic<int> not_there = 0, lost_ones = 0;
    std::vector<std::byte> memory = std::vector<std::byte>(1000);
    landing arrived(peer_number, std::span<const std::byte>, std::size_t) override {
      return {memory.data(), nullptr, [this](bool there) { not_there += !there; }, true};
    }
    void lost(peer_number, const std::string&) override { ++lost_ones; }
  } owner;
  const auto by = make_ucx_wire(owner);
  by->start();
  CHECK_FALSE(by->takes_device_memory());
  stranger some;
  some.send(some.call(by->address()), {}, numbered({}, 100));
  CHECK(tests::soon([&] { return owner.lost_ones == 1; }));
  CHECK(owner.not_there == 1);
  by->stop();
  CHECK(owner.memory == std::vector<std::byte>(1000));
}

TEST_CASE("a wire whose thread the system refuses is refused, with what the system says",
          "[transport]") {
  struct nobody final : wire_owner {
    landing arrived(peer_number, std::span<const std::byte>, std::size_t) override { return {}; }
    void lost(peer_number, const std::string&) override {}
  } owner;
  wire_settings how;
  how.start_thread = [](const std::string& name, const std::function<void()>&) -> std::jthread {
    throw io_error("cannot start the thread '{}'", name);
  };
  CHECK_THROWS_WITH(make_ucx_wire(owner, how),
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

TEST_CASE("a stranger who sends no message of ours is cut off, and nobody else is", "[transport]") {
  memory_pool pool;
  wire_transport by({.process = 1}, by_ucx), there({.process = 2}, by_ucx);
  there.introduce(by.address());
  there.redeem(by.deposit(numbered(pool, 10), now));
  stranger some;
  const auto to = some.call(by.address().where);
  auto header = bytes_of(wire_message{.what = ticket_of(1, 10), .fetch = 1, .begin = 0, .end = 40});
  std::size_t bytes = 0;
  SECTION("nothing at all") {
    header.clear();
  }
  SECTION("too short") {
    header.pop_back();
  }
  SECTION("too long") {
    header.resize(5000);
  }
  SECTION("another magic") {
    header[0] = std::byte(1);
  }
  SECTION("another version") {
    header[4] = std::byte(99);
  }
  SECTION("an unknown verb") {
    header[6] = std::byte(7);
  }
  SECTION("a rank that no shape has") {
    header[88] = std::byte(200);
  }
  SECTION("bytes beyond the end") {
    header[48] = std::byte(41);
  }
  SECTION("a question for nothing of something") {
    header[48] = std::byte(0);
  }
  SECTION("a question with bytes") {
    bytes = 40;
  }
  SECTION("a question with many bytes") {
    bytes = 10'000'000;
  }
  some.send(to, header, bytes);
  CHECK(tests::soon([&] { return some.is_cut_off(); }));
  CHECK(by.counters().refused == 1);
  CHECK(there.redeem(by.deposit(numbered(pool, 20), now)).size() == 20);
}

TEST_CASE("parts that come twice, or overlap, do not make a tensor whole", "[transport]") {
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

TEST_CASE("bytes are asked for once: a peer that asks again does not end the lease",
          "[transport]") {
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

TEST_CASE("parts that nobody has asked for land nowhere", "[transport]") {
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

TEST_CASE(
    "messages with any one byte changed are read or refused, never believed beyond their size",
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

TEST_CASE("a caller who does not speak UCX does not disturb those who do", "[transport]") {
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
