// Groups with ranks in several processes, compared with the local group. Here each process is
// a `windows` object of this process: memory is still read through the kernel, and sanitizers see
// all sides. The wire consists of queues. Real processes over UCX: window_processes_test.cpp.

#include "runtime/collective/local/local_group.hpp"
#include "runtime/collective/window/windows.hpp"
#include "runtime/core/error.hpp"
#include "tests/support/memory_wire.hpp"
#include "tests/support/soon.hpp"
#include "tests/support/window_scenario.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <functional>
#include <sys/mman.h>
#include <thread>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;
namespace kernels = troupe::kernels;

namespace {

enum class kind { shared, wire, mixed };

struct processes {
  processes(int count, int ranks_of_each, kind how, window_tuning tuning = {}) {
    for (int p = 0; p < count; ++p) {
      window_settings settings{.process = std::uint64_t(p + 1), .tuning = tuning};
      settings.shared_memory = how == kind::shared || (how == kind::mixed && p != 1);
      if (how != kind::shared)
        settings.make_wire = [](wire_owner& owner) { return std::make_unique<memory_wire>(owner); };
      all.push_back(std::make_unique<windows>(settings));
    }
    for (int p = 0; p < count; ++p)
      for (int r = 0; r < ranks_of_each; ++r) {
        of_rank.push_back(p);
        what.homes.push_back(all[std::size_t(p)]->address());
      }
  }
  int size() const { return int(of_rank.size()); }
  windows& home(int rank) { return *all[std::size_t(of_rank[std::size_t(rank)])]; }

  std::vector<std::unique_ptr<windows>> all;
  std::vector<int> of_rank;
  window_group_description what{.name = "g", .along = axis::data, .generation = generation_id{1}};
};

using act = std::function<void(communicator&, stream&)>;

void each_rank(int size, const std::function<void(int)>& does) {
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] { does(r); });
  for (auto& t : threads)
    t.join();
}

void as_ranks(processes& of, const cancel_token& token, const act& does) {
  each_rank(of.size(), [&](int r) {
    const auto mine = of.home(r).join(of.what, r, token);
    stream stream(kernels::backend::cpu, 1, {});
    does(*mine, stream);
  });
}

std::vector<std::vector<std::string>> judged(int size) {
  const auto group = std::make_shared<local_group>(axis::data, size, cancel_token());
  std::vector<std::vector<std::string>> out(static_cast<std::size_t>(size));
  each_rank(size, [&](int r) {
    local_communicator mine(group, r);
    stream stream(kernels::backend::cpu, 1, {});
    out[std::size_t(r)] = window_scenario(mine, stream);
  });
  return out;
}

/// The error that ends a rank's work.
std::string ending_of(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const std::exception& failure) {
    return failure.what();
  }
}

}  // namespace

TEST_CASE("operations between processes have the bits of the local group", "[collective]") {
  const auto how = GENERATE(kind::shared, kind::wire, kind::mixed);
  const auto [count, ranks]
      = GENERATE(std::pair(1, 2), std::pair(2, 1), std::pair(3, 1), std::pair(2, 2));
  CAPTURE(int(how), count, ranks);
  // Small pieces: every array has many.
  processes all(count, ranks, how, {.piece = 16 << 10, .cache = 32 << 10, .stretch = 50'000});
  std::vector<std::vector<std::string>> said(std::size_t(all.size()));
  as_ranks(all, {}, [&](communicator& group, stream& stream) {
    said[std::size_t(group.rank())] = window_scenario(group, stream);
  });
  CHECK(said == judged(all.size()));
}

TEST_CASE("several groups between the same processes can meet at the same time", "[collective]") {
  const auto how = GENERATE(kind::shared, kind::wire);
  processes all(2, 1, how);
  std::vector<std::string> said(8);
  each_rank(8, [&](int i) {
    auto what = all.what;
    what.name = fmt::format("lane {}", i / 2);
    const auto mine = all.home(i % 2).join(what, i % 2, {});
    stream stream(kernels::backend::cpu, 1, {});
    for (const auto& line : window_scenario(*mine, stream))
      said[std::size_t(i)] += line;
  });
  const auto expected = judged(2);
  for (int i = 0; i < 8; ++i) {
    std::string one;
    for (const auto& line : expected[std::size_t(i % 2)])
      one += line;
    CHECK(said[std::size_t(i)] == one);
  }
}

TEST_CASE("COLLECTIVE-1 holds between processes, and the group stays broken",
          "[collective][invariant]") {
  const auto how = GENERATE(kind::shared, kind::wire);
  const int other = GENERATE(range(0, 3)), which = GENERATE(range(0, 4));
  CAPTURE(int(how), other, which);
  processes all(3, 1, how);
  std::vector<std::string> said(3), again(3);
  as_ranks(all, {}, [&](communicator& group, stream& stream) {
    std::vector<float> x(16), to(64);
    const void* const part = x.data();
    const std::vector<std::int64_t> ends{4, 8, 16}, elsewhere{4, 12, 16};
    const bool me = group.rank() == other;
    said[std::size_t(group.rank())] = ending_of([&] {
      if (which == 0)
        me ? group.barrier() : group.all_reduce_sum(stream, dtype::f32, {&part, 1}, to.data(), 16);
      else if (which == 1)
        group.all_reduce_sum(stream, dtype::f32, {&part, 1}, to.data(), me ? 15 : 16);
      else if (which == 2)
        group.all_gather(stream, x.data(), to.data(), me ? elsewhere : ends);
      else
        group.broadcast(stream, x.data(), 64, me ? 1 : 0);
    });
    // The group stays broken.
    again[std::size_t(group.rank())] = ending_of([&] { group.barrier(); });
  });
  for (const auto& text : said) {
    CHECK_THAT(text, StartsWith("COLLECTIVE-1: along dp"));
    CHECK(text == said[0]);
  }
  CHECK(again == said);
}

TEST_CASE("COLLECTIVE-4 and COLLECTIVE-3 hold between processes", "[collective][invariant]") {
  processes all(2, 1, GENERATE(kind::shared, kind::wire));
  const cancel_token token;
  std::vector<std::string> said(2);
  as_ranks(all, token, [&](communicator& group, stream& stream) {
    std::vector<char> from(8), to(8);
    const std::vector<std::int64_t> mine{4, 8}, too_few{3, 7};
    said[std::size_t(group.rank())] = ending_of([&] {
      group.all_to_all(stream, from.data(), mine, to.data(), group.rank() == 0 ? mine : too_few);
    });
    if (group.rank() == 1)
      token.cancel();
  });
  CHECK_THAT(said[0], StartsWith("cancelled"));
  CHECK_THAT(said[1], StartsWith("COLLECTIVE-4"));
  all.what.name = "another";
  as_ranks(all, {}, [&](communicator& group, stream& stream) {
    std::int32_t x = 0;
    const void* const part = &x;
    said[std::size_t(group.rank())] = ending_of([&] {
      group.all_reduce_sum(stream, dtype::i32, {&part, 1}, &x, 1);
    });
  });
  for (const auto& text : said)
    CHECK_THAT(text, StartsWith("COLLECTIVE-3"));
}

TEST_CASE(
    "WINDOW-1, WINDOW-2, WINDOW-3: a released rank can unmap its arrays at once; no call succeeds "
    "without it",
    "[collective][invariant]") {
  // Rank 1 is released in the middle and unmaps its arrays. The others are released later, and get
  // no result.
  const auto how = GENERATE(kind::shared, kind::wire, kind::mixed);
  const int delay_us = GENERATE(0, 200, 1000, 3000);
  CAPTURE(int(how), delay_us);
  constexpr std::int64_t n = 1 << 20;
  processes all(3, 1, how);
  const cancel_token first, rest;
  std::atomic<int> begun = 0, unmapped = 0;
  std::vector<int> wrong(3), rounds(3);
  std::vector<std::string> said(3);
  std::thread end([&] {
    while (begun < 3)
      std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    first.cancel();
    while (unmapped == 0)
      std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    rest.cancel();
  });
  each_rank(3, [&](int r) {
    const auto mine = all.home(r).join(all.what, r, r == 1 ? first : rest);
    stream stream(kernels::backend::cpu, 1, {});
    auto* const memory = static_cast<float*>(
        ::mmap(nullptr, n * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::fill_n(memory, n, float(r + 1));
    std::vector<float> to(n);
    const void* const part = memory;
    ++begun;
    said[std::size_t(r)] = ending_of([&] {
      for (;; ++rounds[std::size_t(r)]) {
        mine->all_reduce_sum(stream, dtype::f32, {&part, 1}, to.data(), n);
        for (const float x : to)
          wrong[std::size_t(r)] += x != 6;
        for (std::int64_t i = 0; i < n; ++i)  // WINDOW-1
          wrong[std::size_t(r)] += memory[i] != float(r + 1);
      }
    });
    ::munmap(memory, n * 4);
    ++unmapped;
  });
  end.join();
  CHECK(wrong == std::vector<int>(3));
  for (const auto& text : said)
    CHECK_THAT(text, StartsWith("cancelled"));
  for (const int x : rounds)
    CHECK(x <= rounds[1] + 1);  // the others complete at most one more round
}

TEST_CASE("WINDOW-4: the loss of a process ends all waits for it, with its ranks",
          "[collective][invariant]") {
  const auto how = GENERATE(kind::shared, kind::wire);
  processes all(3, 2, how);
  std::vector<std::string> said(6);
  std::atomic<int> waiting = 0;
  std::thread owner([&] {
    while (waiting < 4)
      std::this_thread::yield();
    for (int p = 0; p < 2; ++p)
      all.all[std::size_t(p)]->release(3, "killed by signal 9");
  });
  each_rank(4, [&](int r) {  // the ranks of the third process never arrive
    const auto mine = all.home(r).join(all.what, r, {});
    stream stream(kernels::backend::cpu, 1, {});
    std::vector<float> x(100);
    const void* const part = x.data();
    ++waiting;
    said[std::size_t(r)] = ending_of([&] {
      mine->all_reduce_sum(stream, dtype::f32, {&part, 1}, x.data(), 100);
    });
  });
  owner.join();
  for (int r = 0; r < 4; ++r) {
    CHECK_THAT(said[std::size_t(r)], ContainsSubstring(fmt::format("rank {} of the group g", r)));
    CHECK_THAT(said[std::size_t(r)], ContainsSubstring("all_reduce_sum of 100"));
    CHECK_THAT(said[std::size_t(r)], ContainsSubstring("process 3 with rank 4, 5 was lost: "));
  }
  // A group that is joined later fails at once, too.
  auto what = all.what;
  what.name = "later";
  CHECK_THROWS_AS(all.home(0).join(what, 0, {})->barrier(), io_error);
}

TEST_CASE("an array that is shorter than stated is refused, with its rank", "[collective]") {
  processes all(2, 1, kind::shared);
  const cancel_token token;
  std::vector<std::string> said(2);
  as_ranks(all, token, [&](communicator& group, stream& stream) {
    const std::size_t page = 4096;
    auto* const memory = static_cast<std::byte*>(
        ::mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (group.rank() == 0)
      ::mprotect(
          memory + 2 * page, 2 * page, PROT_NONE);  // munmap would free the addresses for others
    const void* const part = memory;
    std::vector<float> to(page);
    said[std::size_t(group.rank())] = ending_of([&] {
      const std::vector<std::int64_t> ends{0, std::int64_t(page)};  // rank 1 gets everything
      group.reduce_scatter_sum(stream, dtype::f32, {&part, 1}, to.data(), ends);
    });
    if (group.rank() == 1)
      token.cancel();
    ::munmap(memory, 4 * page);
  });
  CHECK_THAT(said[0], StartsWith("cancelled"));
  CHECK_THAT(said[1], ContainsSubstring("of rank 0 of the group g@1 in process 1"));
}

TEST_CASE(
    "WINDOW-5, WINDOW-6, WINDOW-7: a rank joins once, in its home process; all ranks describe a "
    "group alike",
    "[collective][invariant]") {
  processes all(2, 1, kind::shared);
  const auto joined = all.home(0).join(all.what, 0, {});
  CHECK_THROWS_MATCHES(
      all.home(0).join(all.what, 0, {}), broken_promise, MessageMatches(StartsWith("WINDOW-6")));
  for (const int r : {1, 2, -1})
    CHECK_THROWS_MATCHES(
        all.home(0).join(all.what, r, {}), broken_promise, MessageMatches(StartsWith("WINDOW-5")));
  auto what = all.what;
  what.homes.push_back(what.homes[1]);
  CHECK_THROWS_MATCHES(
      all.home(0).join(what, 0, {}), broken_promise, MessageMatches(StartsWith("WINDOW-7")));
}

TEST_CASE("a rank knows how long it has waited for ranks of other processes", "[collective]") {
  const auto how = GENERATE(kind::shared, kind::wire);
  processes all(2, 1, how);
  std::uint64_t waited[2] = {};
  as_ranks(all, {}, [&](communicator& group, stream&) {
    for (int i = 0; i < 40; ++i) {
      if (group.rank() == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      group.barrier();
    }
    waited[group.rank()] = group.waited_ns();
  });
  // 200 ms together; on a busy machine the other rank may arrive late, too.
  CHECK(waited[1] > 50'000'000);
  CHECK(waited[0] < waited[1]);
}

TEST_CASE("memberships of ended generations make room for new ones", "[collective]") {
  processes all(2, 1, kind::shared);
  for (int g = 1; g <= window_board::channels + 10; ++g) {
    all.what.generation = generation_id(std::uint64_t(g));
    as_ranks(all, {}, [&](communicator& group, stream&) { group.barrier(); });
  }
  // The limit counts the memberships of one generation.
  std::vector<std::shared_ptr<communicator>> held;
  CHECK_THROWS_MATCHES(
      [&] {
        for (int i = 0;; ++i) {
          all.what.name = std::to_string(i);
          held.push_back(all.home(0).join(all.what, 0, {}));
        }
      }(),
      io_error,
      MessageMatches(ContainsSubstring("256 memberships")));
}

TEST_CASE("processes that cannot reach each other get an error with advice", "[collective]") {
  windows one({.process = 1}), two({.process = 2, .shared_memory = false});
  window_group_description what{
      .name = "g", .generation = generation_id{1}, .homes = {one.address(), two.address()}};
  CHECK_THROWS_MATCHES(one.join(what, 0, {}),
                       io_error,
                       MessageMatches(ContainsSubstring("give both processes a wire")));
  what.homes[1] = "elsewhere";
  CHECK_THROWS_AS(one.join(what, 0, {}), input_error);
  auto gone = window_address_of(one.address());
  gone.process = 3;
  ++gone.nonce;
  what.homes[1] = to_text(gone);
  CHECK_THROWS_MATCHES(
      one.join(what, 0, {}), io_error, MessageMatches(ContainsSubstring("another process has")));
  what.name = std::string(200, 'x');
  CHECK_THROWS_AS(one.join(what, 0, {}), input_error);
}
