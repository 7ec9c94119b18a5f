#include "runtime/collective/local/local_group.hpp"

#include "runtime/core/error.hpp"
#include "runtime/device/fibers.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

using namespace troupe::runtime;
using namespace std::chrono_literals;
namespace kernels = troupe::kernels;

namespace {

/// Calls `act` as every rank of a group, each on a thread of its own.
void as_ranks(int size,
              const cancel_token& token,
              const std::function<void(local_communicator&)>& act) {
  const auto group = std::make_shared<local_group>(axis::data, size, token);
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      local_communicator mine(group, r);
      act(mine);
    });
  for (auto& t : threads)
    t.join();
}

/// Waits for `holds` for at least 20 s; false is a defect.
bool comes(const std::function<bool()>& holds) {
  for (int i = 0; i < 20'000 && !holds(); ++i)
    std::this_thread::sleep_for(1ms);
  return holds();
}

/// A delay that depends on its arguments only.
void planted_delay(int rank, int round) {
  const auto mixed = (std::uint32_t(rank) * 7919U + std::uint32_t(round) * 104729U) * 2654435761U;
  std::this_thread::sleep_for(std::chrono::microseconds(mixed >> 24));  // at most 255
}

using arrays = std::vector<std::vector<float>>;  ///< one for each (rank, part)

/// Numbers of very different size, so that the order of the sum matters.
arrays addends(int count, std::int64_t n, int round) {
  arrays out;
  for (int i = 0; i < count; ++i) {
    out.push_back(troupe::tests::normal<float>(std::size_t(n), std::uint32_t(100 * round + i)));
    for (std::size_t k = 0; k < out.back().size(); ++k)
      out.back()[k] *= (k + std::size_t(i)) % 3 == 0 ? 1e4F : 1e-2F;
  }
  return out;
}

std::vector<float> sum_in_order(const arrays& all) {
  auto out = all.front();
  for (std::size_t i = 1; i < all.size(); ++i)
    for (std::size_t k = 0; k < out.size(); ++k)
      out[k] += all[i][k];
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  // The data pointer of an empty vector can be null.
  return a.size() == b.size()
         && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace

TEST_CASE("a sum over ranks and parts equals the scalar sum in rank order, bit for bit",
          "[collective]") {
  const int size = GENERATE(1, 2, 3, 4), parts = GENERATE(1, 2, 3);
  const std::int64_t n = GENERATE(0, 1, 15, 16, 17, 1000, 4099);
  const auto where = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  CAPTURE(size, parts, n, int(where));
  constexpr int rounds = 3;
  std::vector<arrays> memory;
  std::vector<std::vector<float>> expected;
  for (int round = 0; round < rounds; ++round) {
    memory.push_back(addends(size * parts, n, round));
    expected.push_back(sum_in_order(memory.back()));
  }
  as_ranks(size, {}, [&](local_communicator& group) {
    stream stream(where, 1, {});
    for (int round = 0; round < rounds; ++round) {
      std::vector<const void*> mine;
      for (int p = 0; p < parts; ++p)
        mine.push_back(memory[std::size_t(round)][std::size_t(group.rank() * parts + p)].data());
      planted_delay(group.rank(), round);
      float* const to
          = memory[std::size_t(round)][std::size_t(group.rank() * parts)].data();  // in place
      group.all_reduce_sum(stream, dtype::f32, mine, to, n);
      planted_delay(group.rank(), round + rounds);
    }
  });
  for (int round = 0; round < rounds; ++round)
    for (int r = 0; r < size; ++r)
      CHECK(same_bits(memory[std::size_t(round)][std::size_t(r * parts)],
                      expected[std::size_t(round)]));
}

TEST_CASE("a communicator knows its axis, its rank and its size", "[collective]") {
  std::vector<int> ranks(3, -1);
  as_ranks(3, {}, [&](local_communicator& group) {
    ranks[std::size_t(group.rank())] = group.along() == axis::data ? group.size() : 0;
  });
  CHECK(ranks == std::vector<int>{3, 3, 3});
}

TEST_CASE("a barrier holds each rank until all have arrived", "[collective]") {
  std::atomic<int> arrived = 0, early = 0;
  as_ranks(4, {}, [&](local_communicator& group) {
    for (int round = 1; round <= 50; ++round) {
      if (round % 10 == group.rank())
        planted_delay(group.rank(), round);
      ++arrived;
      group.barrier();
      early += arrived < 4 * round;
      group.barrier();
    }
  });
  CHECK(early == 0);
  CHECK(arrived == 200);
}

TEST_CASE("a cancelled generation releases all waiting ranks", "[collective]") {
  const bool summing = GENERATE(false, true);
  const cancel_token token;
  std::atomic<int> waiting = 0, released = 0;
  as_ranks(4, token, [&](local_communicator& group) {
    if (group.rank() == 2) {  // this rank never arrives
      while (waiting < 3)
        std::this_thread::yield();
      std::this_thread::sleep_for(5ms);
      token.cancel();
      return;
    }
    stream stream(kernels::backend::reference, 1, {});
    std::vector<float> mine(100);
    const void* const part = mine.data();
    ++waiting;
    try {
      if (summing)
        group.all_reduce_sum(stream, dtype::f32, {&part, 1}, mine.data(), 100);
      else
        group.barrier();
    } catch (const cancelled&) {
      ++released;
    }
  });
  CHECK(released == 3);
}

TEST_CASE("an operation in a cancelled generation is refused", "[collective]") {
  const cancel_token token;
  token.cancel();
  std::atomic<int> refused = 0;
  as_ranks(2, token, [&](local_communicator& group) {
    try {
      group.barrier();
    } catch (const cancelled&) {
      ++refused;
    }
  });
  CHECK(refused == 2);
}

TEST_CASE("a rank that leaves a cancelled sum can free its memory at once", "[collective]") {
  // Each rank overwrites its array once it is released. A thread sanitizer detects a rank that
  // still reads it; a sum of overwritten memory contains `poison`.
  constexpr std::int64_t n = 1 << 18;
  constexpr float poison = -1e30F;
  const int delay_us = GENERATE(range(0, 2000, 100));
  const cancel_token token;
  std::atomic<int> poisoned = 0;
  std::atomic<bool> begun = false;
  std::thread end([&] {
    while (!begun)
      std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    token.cancel();
  });
  as_ranks(4, token, [&](local_communicator& group) {
    stream stream(kernels::backend::reference, 1, {});
    std::vector<float> mine(n, 1), copy;
    const void* const part = mine.data();
    try {
      for (;;) {
        group.all_reduce_sum(stream, dtype::f32, {&part, 1}, mine.data(), n);
        std::fill(mine.begin(), mine.end(), 1.0F);
        begun = true;
      }
    } catch (const cancelled&) {
      poisoned += std::count_if(mine.begin(), mine.end(), [](float x) { return x < 0; }) > 0;
      std::fill(mine.begin(), mine.end(), poison);
    }
  });
  end.join();
  CHECK(poisoned == 0);
}

TEST_CASE("a rank with its own token leaves alone, and its arrays are not read afterwards",
          "[collective]") {
  const cancel_token all, own;
  const auto group = std::make_shared<local_group>(axis::data, 2, all);
  group->release_by(1, own);
  std::atomic<bool> passed = false;
  std::string first = "nothing", second = "nothing";
  std::thread stays([&] {
    local_communicator mine(group, 0);
    try {
      mine.barrier();  // the other rank never arrives
      passed = true;
    } catch (const cancelled&) {
      first = "cancelled";
    }
  });
  std::thread leaves([&] {
    own.cancel();
    local_communicator mine(group, 1);
    try {
      mine.barrier();
    } catch (const cancelled&) {
      second = "cancelled";
    }
  });
  leaves.join();
  CHECK(second == "cancelled");
  CHECK_FALSE(passed);
  all.cancel();
  stays.join();
  CHECK(first == "cancelled");
  CHECK_FALSE(passed);
}

TEST_CASE("a group names the operation that a rank waits in, and the missing ranks",
          "[collective]") {
  const auto group = std::make_shared<local_group>(axis::data, 3, cancel_token());
  group->introduce("data of pipeline rank 1.0", 0, "lane:0.1");
  group->introduce("data of pipeline rank 1.0", 2, "lane:2.1");
  CHECK(group->missing(0).whom.empty());
  const auto arrive = [&](int rank) {
    return std::thread([&group, rank] { local_communicator(group, rank).barrier(); });
  };
  auto first = arrive(0);
  REQUIRE(comes([&] { return !group->missing(0).whom.empty(); }));
  CHECK(group->missing(0).what == "barrier in 'data of pipeline rank 1.0'");
  // A rank without a name of its own gets a default name from the group.
  CHECK(group->missing(0).whom == std::vector<std::string>{"rank 1 of the dp group", "lane:2.1"});
  CHECK(group->missing(1).whom.empty());
  auto second = arrive(1);
  REQUIRE(comes([&] { return !group->missing(1).whom.empty(); }));
  CHECK(group->missing(0).whom == std::vector<std::string>{"lane:2.1"});
  CHECK(group->missing(1).whom == std::vector<std::string>{"lane:2.1"});
  auto third = arrive(2);
  for (auto* const one : {&first, &second, &third})
    one->join();
  for (const auto rank : {0, 1, 2})
    CHECK(group->missing(std::uint64_t(rank)).whom.empty());
}

TEST_CASE("a rank knows how long it has waited for the others", "[collective]") {
  constexpr std::uint64_t ms = 1'000'000;
  const auto group = std::make_shared<local_group>(axis::tensor, 3, cancel_token());
  std::vector<local_communicator> members;
  for (int r = 0; r < 3; ++r)
    members.emplace_back(group, r);
  fiber_pool pool;  // with a virtual clock: exact times
  for (int r = 0; r < 3; ++r)
    pool.start("rank", [&, r] {
      for (int round = 1; round <= 2; ++round) {
        sleep_for(std::chrono::milliseconds(round * r));
        members[std::size_t(r)].barrier();
      }
    });
  for (auto able = pool.runnable(); !pool.alive().empty(); able = pool.runnable())
    if (able.empty())
      pool.set_time(pool.next_wake().value());
    else
      pool.run(able.front());
  CHECK(members[0].waited_ns() == 6 * ms);
  CHECK(members[1].waited_ns() == 3 * ms);
  CHECK(members[2].waited_ns() == 0);
  CHECK(alone(axis::tensor)->waited_ns() == 0);
}
