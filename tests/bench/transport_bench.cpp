// Reads tensors of another process over UCX, compared with memcpy: docs/benchmarks.
//
//   bench_transport [--smoke] [--sent]
//
// By default tensors are read through shared memory, as within a host. With --sent they go over the
// wire, as between hosts. transport_against_ucx.py compares with UCX itself.

#include "runtime/transport/ucx_wire.hpp"
#include "runtime/transport/wire_message.hpp"
#include "runtime/transport/wire_transport.hpp"
#include "tests/support/child.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fmt/format.h>
#include <mutex>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::runtime;
using seconds = std::chrono::duration<double>;

namespace {

constexpr generation_id now{1};

/// True if the processes share memory; equal on both ends.
bool shares = true;

std::unique_ptr<wire> by_ucx(wire_owner& owner) {
  return make_ucx_wire(owner, settings_without_secret());
}

/// Leases `count` tickets of one tensor, and prints the address.
int hold(std::int64_t bytes, int count) {
  wire_transport by({.process = 2, .shares_memory = shares}, by_ucx);
  memory_pool pool;
  const tensor x(pool.allocate(std::size_t(bytes)), dtype::f32, {bytes / 4});
  std::memset(x.block().get(), 1, x.bytes());
  for (int i = 0; i < count; ++i)
    by.deposit(x, now);
  fmt::print("{}\n", by.address().where);
  std::fflush(stdout);
  for (;;)
    ::pause();
}

/// Returns each message to its sender, until it is killed.
class echo final : public wire_owner {
 public:
  echo() : wire_(by_ucx(*this)) { wire_->start(); }
  std::string address() const { return wire_->address(); }

 private:
  landing arrived(peer_number from, std::span<const std::byte> header, std::size_t) override {
    wire_->send(from, {{header.begin(), header.end()}, {}, nullptr});
    return {};
  }
  void lost(peer_number, const std::string&) override {}

  std::unique_ptr<wire> wire_;
};

int answer() {
  const echo by;
  fmt::print("{}\n", by.address());
  std::fflush(stdout);
  for (;;)
    ::pause();
}

/// Sends a message and sleeps until it comes back.
class caller final : public wire_owner {
 public:
  explicit caller(const std::string& address) : wire_(by_ucx(*this)) {
    wire_->start();
    to_ = wire_->connect(address);
  }
  ~caller() override { wire_->stop(); }

  void ask() {
    std::unique_lock lock(mutex_);
    came_ = false;
    wire_->send(to_, {std::vector<std::byte>(wire_message_bytes), {}, nullptr});
    changed_.wait(lock, [&] { return came_; });
  }

 private:
  landing arrived(peer_number, std::span<const std::byte>, std::size_t) override {
    const std::lock_guard lock(mutex_);
    came_ = true;
    changed_.notify_all();
    return {};
  }
  void lost(peer_number, const std::string&) override {}

  std::mutex mutex_;
  std::condition_variable changed_;
  bool came_ = false;
  peer_number to_ = {};
  std::unique_ptr<wire> wire_;
};

/// Seconds of each call, sorted.
template <class Work>
std::vector<double> timed(int times, Work&& work) {
  std::vector<double> out;
  for (int i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work(i);
    out.push_back(seconds(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(out.begin(), out.end());
  return out;
}

double middle(const std::vector<double>& sorted) {
  return sorted[sorted.size() / 2];
}

void measure_wire(const std::string& program, int times) {
  tests::child other({program, "--answer"});
  caller by(other.line());
  timed(10, [&](int) { by.ask(); });
  const auto all = timed(times, [&](int) { by.ask(); });
  fmt::print("a message and its answer by the wire: {:.1f} us, p99 {:.1f}\n\n",
             middle(all) * 1e6,
             all[all.size() * 99 / 100] * 1e6);
}

void measure(const std::string& program, std::int64_t bytes, int times) {
  constexpr int together = 8, warm = 3;
  tests::child other({program,
                      shares ? "--hold" : "--hold-sent",
                      std::to_string(bytes),
                      std::to_string((times + warm) * (1 + together))});
  wire_transport by({.process = 1, .shares_memory = shares}, by_ucx);
  by.introduce({2, other.line()});
  std::uint64_t slot = 0;
  const auto tickets = [&](int n) {
    std::vector<ticket> out;
    for (int i = 0; i < n; ++i)
      out.push_back({2, ++slot, now, dtype::f32, {bytes / 4}});
    return out;
  };
  const auto redeem = [&](int n) { return [&, n](int) { by.redeem_all(tickets(n), {}); }; };
  timed(warm, redeem(1));
  const auto one = timed(times, redeem(1));
  timed(warm, redeem(together));
  const auto many = timed(times, redeem(together));

  memory_pool pool;
  const auto from = pool.allocate(std::size_t(bytes)), to = pool.allocate(std::size_t(bytes));
  std::memset(from.get(), 1, std::size_t(bytes));
  std::memset(to.get(), 1, std::size_t(bytes));
  const auto copies
      = timed(times, [&](int) { std::memcpy(to.get(), from.get(), std::size_t(bytes)); });
  const auto rate = [&](double s, int n) { return double(bytes) * n / s / 1e9; };
  fmt::print("| {} | {:.1f} | {:.1f} | {:.2f} | {:.2f} | {:.1f} |\n",
             bytes,
             middle(one) * 1e6,
             one[one.size() * 99 / 100] * 1e6,
             rate(middle(one), 1),
             rate(middle(many), together),
             rate(middle(copies), 1));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  shares = !has("--sent") && !has("--hold-sent");
  if (argc == 4 && (has("--hold") || has("--hold-sent")))
    return hold(std::atoll(argv[2]), std::atoi(argv[3]));
  if (has("--answer"))
    return answer();
  const bool smoke = has("--smoke");
  measure_wire(argv[0], smoke ? 3 : 2000);
  fmt::print(
      "| bytes | one redeemed, us | p99 | GB/s, one at a time | GB/s, 8 together | memcpy GB/s |\n"
      "|---|---|---|---|---|---|\n");
  for (const std::int64_t bytes : {8l, 64l << 10, 1l << 20, 16l << 20, 64l << 20}) {
    measure(argv[0], bytes, smoke ? 3 : bytes > (4 << 20) ? 60 : 1000);
    if (smoke && bytes > 1000)
      break;
  }
}
