// Tests of device tensors over a wire: through pinned memory, or directly.

#include "runtime/device/backend_kind.hpp"
#include "runtime/tensor/moves.hpp"
#include "runtime/transport/ucx_wire.hpp"
#include "runtime/transport/wire_transport.hpp"
#include "tests/support/emulated_plugins.hpp"
#include "tests/support/soon.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <numeric>
#include <thread>

using namespace troupe;
using namespace troupe::runtime;

namespace {

constexpr generation_id now{1};

/// A loopback wire that reads and writes device memory, like UCX with CUDA support.
class device_wire final : public wire {
 public:
  explicit device_wire(wire_owner& owner)
      : owner_(owner), queue_(open_devices().make_queue(0)), thread_([this] { work(); }) {}
  ~device_wire() override { device_wire::stop(); }

  void start() override {}
  void stop() override {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable())
      thread_.join();
  }
  std::string address() const override { return "here"; }
  bool takes_device_memory() const override { return true; }
  peer_number connect(const std::string&) override { return peer_number{1}; }
  void close(peer_number, const std::string&) override {}
  void send(peer_number, outgoing what) override {
    {
      const std::lock_guard lock(mutex_);
      sent_.push_back(std::move(what));
    }
    changed_.notify_one();
  }

 private:
  void work() {
    queue_->attend();
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return over_ || !sent_.empty(); });
      if (over_)
        return;
      const auto x = std::move(sent_.front());
      sent_.pop_front();
      lock.unlock();
      const auto to = owner_.arrived(peer_number{1}, x.header, x.bytes.size());
      if (to.to != nullptr) {
        queue_->copy(to.to, x.bytes.data(), x.bytes.size());
        queue_->finish();
        to.done(true);
      }
      if (x.done)
        x.done(true);
    }
  }

  wire_owner& owner_;
  std::shared_ptr<device_queue> queue_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<outgoing> sent_;
  bool over_ = false;
  std::thread thread_;
};

std::vector<std::int32_t> numbers(std::int64_t n, int seed) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), seed);
  return out;
}

tensor published(stream& stream, std::int64_t n, int seed) {
  bundle one;
  one.add("x", uploaded(stream, numbers(n, seed), {n}));
  publish(stream, one);
  return one.at("x");
}

/// The event of a queue that is still waiting.
struct not_yet final : device_event {
  bool passed() const override { return false; }
  void wait() const override { throw broken_promise("a wait for an unwritten tensor"); }
  double ms_after(const device_event&) const override { return 0; }
};

}  // namespace

TEST_CASE("a written tensor is sent although an earlier requested one is not written", "[device]") {
  const bool as_it_lies = GENERATE(false, true);
  wire_transport by({.process = 1, .through_the_wire = true, .piece = 1000},
                    [&](wire_owner& o) -> std::unique_ptr<wire> {
                      if (as_it_lies)
                        return std::make_unique<device_wire>(o);
                      return make_ucx_wire(o, settings_without_secret());
                    });
  stream from(backend_kind::cuda, 1, {}, 0), to(backend_kind::cuda, 1, {}, 0);
  const auto late = published(from, 1000, 1);
  publish(late.block(), std::make_shared<not_yet>());
  const auto ticket_of_late = by.deposit(late, now);
  std::thread waiting([&] {
    stream other(backend_kind::cuda, 1, {}, 0);
    CHECK(elements_of<std::int32_t>(other, by.redeem(ticket_of_late, {.stream = &other}))
          == numbers(1000, 1));
  });
  REQUIRE(tests::soon([&] { return by.leased() == (as_it_lies ? 0u : 1u) || by.leased() == 0; }));
  for (int i = 0; i < 20; ++i)
    CHECK(elements_of<std::int32_t>(
              to, by.redeem(by.deposit(published(from, 777, i), now), {.stream = &to}))
          == numbers(777, i));
  from.attend();
  publish(late.block(), from.mark());
  waiting.join();
}

TEST_CASE("an unwritten tensor is dropped with its generation, and its requester gets an error",
          "[device]") {
  wire_transport there({.process = 2, .piece = 1000},
                       [](wire_owner& o) { return make_ucx_wire(o, settings_without_secret()); });
  wire_transport here({.process = 1, .piece = 1000},
                      [](wire_owner& o) { return make_ucx_wire(o, settings_without_secret()); });
  here.introduce(there.address());
  stream from(backend_kind::cuda, 1, {}, 0);
  auto late = published(from, 1000, 1);
  publish(late.block(), std::make_shared<not_yet>());
  const std::weak_ptr block = late.block();
  const auto x = there.deposit(std::exchange(late, {}), now);
  std::thread waiting([&] { CHECK_THROWS_AS(here.redeem(x), cancelled); });
  CHECK(tests::soon([&] { return there.leased() == 0; }));
  CHECK(!block.expired());
  there.end_generation(now);
  waiting.join();
  CHECK(tests::soon([&] { return block.expired(); }));
}

TEST_CASE("a wire moves tensors in pieces between devices, and between a device and the host",
          "[device]") {
  const std::int64_t n = GENERATE(0, 1, 250, 251, 750, 10'007);
  CAPTURE(n);
  wire_transport here({.process = 1, .piece = 1000},
                      [](wire_owner& o) { return make_ucx_wire(o, settings_without_secret()); });
  wire_transport there({.process = 2, .piece = 1000},
                       [](wire_owner& o) { return make_ucx_wire(o, settings_without_secret()); });
  here.introduce(there.address());
  stream first(backend_kind::cuda, 1, {}, 0), second(backend_kind::cuda, 1, {}, 1),
      host(backend_kind::cpu, 1, {});

  const std::vector tickets{there.deposit(published(first, n, 1), now),
                            there.deposit(published(second, n, 2), now),
                            there.deposit(uploaded(host, numbers(n, 3), {n}), now)};
  for (auto* const stream : {&second, &host}) {
    std::vector<ticket> again;
    for (const auto& x : tickets)
      again.push_back(stream == &second ? x : there.deposit(published(first, n, 9), now));
    const auto out = here.redeem_all(again, {.stream = stream});
    for (int k = 0; k < 3; ++k) {
      CHECK(out[std::size_t(k)].kind()
            == (stream == &second ? memory_kind::device : memory_kind::host));
      CHECK(elements_of<std::int32_t>(*stream, out[std::size_t(k)])
            == numbers(n, stream == &second ? k + 1 : 9));
    }
  }
  CHECK(there.leased() == 0);
}

TEST_CASE("a tensor that a device redeemed may be lent to another queue", "[device]") {
  wire_transport here({.process = 1, .piece = 1000},
                      [](wire_owner& o) { return make_ucx_wire(o, settings_without_secret()); });
  wire_transport there({.process = 2, .piece = 1000},
                       [](wire_owner& o) { return make_ucx_wire(o, settings_without_secret()); });
  here.introduce(there.address());
  stream first(backend_kind::cuda, 1, {}, 0), second(backend_kind::cuda, 1, {}, 0);
  const std::vector tickets{there.deposit(published(first, 700, 1), now)};
  const auto came = here.redeem_all(tickets, {.stream = &first});
  const auto lent = taken(second, came.front());
  CHECK(elements_of<std::int32_t>(second, lent) == numbers(700, 1));
}

TEST_CASE("a wire moves many device tensors at once", "[device]") {
  wire_transport by({.process = 1, .through_the_wire = true, .piece = 512},
                    [](wire_owner& o) { return make_ucx_wire(o, settings_without_secret()); });
  std::vector<std::thread> all;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 2; ++t)
    all.emplace_back([&, t] {
      stream from(backend_kind::cuda, 1, {}, t), to(backend_kind::cuda, 1, {}, 1 - t);
      for (int i = 0; i < 10; ++i) {
        std::vector<ticket> tickets;
        for (int k = 0; k < 4; ++k)
          tickets.push_back(by.deposit(published(from, 100 * (k + i) + t, i + k), now));
        const auto out = by.redeem_all(tickets, {.stream = &to});
        for (int k = 0; k < 4; ++k)
          wrong += elements_of<std::int32_t>(to, out[std::size_t(k)])
                   != numbers(100 * (k + i) + t, i + k);
      }
    });
  for (auto& x : all)
    x.join();
  CHECK(wrong == 0);
}

TEST_CASE("a wire that supports device memory gets it directly", "[device]") {
  const std::int64_t n = GENERATE(1, 10'007);
  wire_transport by({.process = 1, .through_the_wire = true, .piece = 1000},
                    [](wire_owner& o) { return std::make_unique<device_wire>(o); });
  stream first(backend_kind::cuda, 1, {}, 0), second(backend_kind::cuda, 1, {}, 0);
  for (int i = 0; i < 5; ++i) {
    const auto out = by.redeem(by.deposit(published(first, n, i), now), {.stream = &second});
    CHECK(out.kind() == memory_kind::device);
    CHECK(elements_of<std::int32_t>(second, out) == numbers(n, i));
  }
  CHECK(by.leased() == 0);
}

TEST_CASE("pieces that a device is still copying are dropped with their generation", "[device]") {
  memory_pool pool;
  wire_transport there({.process = 2, .piece = 1000},
                       [](wire_owner& o) { return make_ucx_wire(o, settings_without_secret()); });
  {
    wire_transport here({.process = 1, .piece = 1000},
                        [](wire_owner& o) { return make_ucx_wire(o, settings_without_secret()); });
    here.introduce(there.address());
    stream from(backend_kind::cuda, 1, {}, 0), to(backend_kind::cuda, 1, {}, 1);
    const auto x = there.deposit(published(from, 2'000'000, 0), now);
    const cancel_token token;
    std::thread waiting([&] {
      to.attend();
      CHECK_THROWS_AS(here.redeem(x, {&to, token}), cancelled);
    });
    CHECK(tests::soon([&] { return here.counters().bytes_copied > 0; }));
    token.cancel();
    waiting.join();
    there.end_generation(now);
    CHECK(there.leased() == 0);
  }
}
