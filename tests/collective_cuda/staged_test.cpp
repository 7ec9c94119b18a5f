// Compares each operation of a staged communicator, on devices, with the same operation of its
// group on the host, bit for bit.

#include "runtime/collective/local/local_group.hpp"
#include "runtime/collective/staged_communicator.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/support/nccl_ranks.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

constexpr int ranks = 3;
constexpr std::int64_t n = 1000;
const std::vector<std::int64_t> ends = {300, 300, n};

using work = std::function<tensor(communicator&, stream&)>;
using of_ranks = std::vector<std::vector<float>>;

tensor numbers(stream& by, int which, std::int64_t count = n) {
  return uploaded(by, normal<float>(std::size_t(count), std::uint32_t(which)), {count});
}

std::vector<std::int64_t> in_bytes(std::vector<std::int64_t> elements) {
  for (auto& x : elements)
    x *= sizeof(float);
  return elements;
}

of_ranks results(bool staged, const work& what) {
  of_ranks out(ranks);
  const auto group = std::make_shared<local_group>(axis::data, ranks, cancel_token());
  on_threads(ranks, [&](int r) {
    std::unique_ptr<communicator> mine = std::make_unique<local_communicator>(group, r);
    if (staged)
      mine = std::make_unique<staged_communicator>(std::move(mine), memory_source());
    const auto where = staged ? kernels::backend::cuda : kernels::backend::cpu;
    stream by(where, 1, {}, staged ? r : 0);
    for (int again = 0; again < 2; ++again)  // the memory is used again
      out[std::size_t(r)] = elements_of<float>(by, what(*mine, by));
  });
  return out;
}

void require_same(const work& what) {
  CHECK(results(true, what) == results(false, what));
}

}  // namespace

TEST_CASE("a staged communicator has the results of its group", "[collective][staged]") {
  require_same([](communicator& group, stream& by) {
    const auto a = numbers(by, 2 * group.rank()), b = numbers(by, 2 * group.rank() + 1);
    const void* const parts[] = {a.raw(), b.raw()};
    auto out = tensor::empty<float>(by, {n});
    group.all_reduce_sum(by, dtype::f32, parts, out.raw(), n);
    return out;
  });
  require_same([](communicator& group, stream& by) {
    auto a = numbers(by, group.rank());
    const void* const part = a.raw();
    group.all_reduce_sum(by, dtype::f32, {&part, 1}, a.raw(), n);
    return a;
  });
  require_same([](communicator& group, stream& by) {
    const auto a = numbers(by, group.rank());
    const void* const part = a.raw();
    auto out = numbers(by, 77);  // the rank with an empty cut keeps it
    group.reduce_scatter_sum(by, dtype::f32, {&part, 1}, out.raw(), ends);
    return out;
  });
  require_same([](communicator& group, stream& by) {
    const auto begin = group.rank() == 0 ? 0 : ends[std::size_t(group.rank() - 1)];
    auto all = numbers(by, group.rank());
    group.all_gather(by, all.data<float>() + begin, all.raw(), in_bytes(ends));  // in place
    return all;
  });
  require_same([](communicator& group, stream& by) {
    const auto mine = numbers(by, group.rank());
    auto all = tensor::empty<float>(by, {n});
    group.all_gather(by, mine.raw(), all.raw(), in_bytes(ends));
    return all;
  });
  require_same([](communicator& group, stream& by) {
    const int r = group.rank();
    const auto from = numbers(by, r, 60);
    const auto each = std::int64_t(10 * (r + 1));  // from every rank
    auto out = tensor::empty<float>(by, {ranks * each});
    group.all_to_all(
        by, from.raw(), in_bytes({10, 30, 60}), out.raw(), in_bytes({each, 2 * each, 3 * each}));
    return out;
  });
  require_same([](communicator& group, stream& by) {
    auto x = numbers(by, group.rank());
    group.broadcast(by, x.raw(), std::int64_t(x.bytes()), 1);
    group.barrier();
    return x;
  });
}

TEST_CASE("an operation of a staged communicator may be empty", "[collective][staged]") {
  require_same([](communicator& group, stream& by) {
    auto x = numbers(by, group.rank());
    const void* const part = x.raw();
    group.all_reduce_sum(by, dtype::f32, {&part, 1}, x.raw(), 0);
    group.broadcast(by, x.raw(), 0, 0);
    return x;
  });
}

TEST_CASE("the end of a generation releases a rank that waits in a staged communicator",
          "[collective][staged]") {
  const cancel_token token;
  const auto group = std::make_shared<local_group>(axis::data, 2, token);
  staged_communicator mine(std::make_unique<local_communicator>(group, 0), {});
  stream by(kernels::backend::cuda, 1, {}, 0);
  auto x = numbers(by, 1);
  const void* const part = x.raw();
  std::thread end([&] { token.cancel(); });
  CHECK_THROWS_AS(mine.all_reduce_sum(by, dtype::f32, {&part, 1}, x.raw(), n), cancelled);
  end.join();
  CHECK(elements_of<float>(by, x) == normal<float>(std::size_t(n), 1));
}
