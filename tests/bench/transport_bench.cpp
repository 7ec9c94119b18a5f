// Tensors of another process over UCX on this machine, beside memcpy: docs/benchmarks.
//
//   bench_transport [--smoke]

#include "runtime/transport/ucx_wire.hpp"
#include "runtime/transport/wire_transport.hpp"
#include "tests/support/child.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <string>

using namespace troupe;
using namespace troupe::runtime;
using seconds = std::chrono::duration<double>;

namespace {

constexpr generation_id now{1};

std::unique_ptr<wire> by_ucx(wire_owner& owner) {
  return make_ucx_wire(owner, settings_without_secret());
}

/// Leases `count` tickets of one tensor, and says where.
int hold(std::int64_t bytes, int count) {
  wire_transport by({.process = 2}, by_ucx);
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

void measure(const std::string& program, std::int64_t bytes, int times) {
  constexpr int together = 8, warm = 3;
  tests::child other(
      {program, "--hold", std::to_string(bytes), std::to_string((times + warm) * (1 + together))});
  wire_transport by({.process = 1}, by_ucx);
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
  const auto middle = [](const std::vector<double>& x) { return x[x.size() / 2]; };
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
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "--hold" && argc == 4)
    return hold(std::atoll(argv[2]), std::atoi(argv[3]));
  const bool smoke = verb == "--smoke";
  fmt::print(
      "| bytes | one redeemed, us | p99 | GB/s, one at a time | GB/s, 8 together | memcpy GB/s |\n"
      "|---|---|---|---|---|---|\n");
  for (const std::int64_t bytes : {8l, 64l << 10, 1l << 20, 16l << 20, 64l << 20}) {
    measure(argv[0], bytes, smoke ? 3 : bytes > (4 << 20) ? 60 : 1000);
    if (smoke && bytes > 1000)
      break;
  }
}
