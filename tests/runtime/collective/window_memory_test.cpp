// Shared memory between processes of one host: mapped arrays, boards, and lost processes.

#include "runtime/collective/window/shared_wire.hpp"
#include "runtime/collective/window/windows.hpp"
#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

/// Number of mappings of windows::allocate memory in this process.
int arrays_mapped() {
  int out = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    out += line.find("/memfd:troupe arrays") != std::string::npos ? 1 : 0;
  return out;
}

std::string ending_of(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const std::exception& failure) {
    return failure.what();
  }
}

window_address address_of(const window_board& board, std::uint64_t process) {
  return {.process = process,
          .host = "here",
          .pid = ::getpid(),
          .board = board.descriptor(),
          .nonce = board.nonce(),
          .probe = std::uint64_t(reinterpret_cast<std::uintptr_t>(board.probe())),
          .wire = ""};
}

/// Two ends of a group of two ranks, as in two processes.
struct two_ends {
  two_ends() {
    for (int r = 0; r < 2; ++r) {
      const int other = 1 - r;
      const auto peer
          = open_peer(address_of(*boards[std::size_t(other)], std::uint64_t(other + 1)));
      std::vector<window_group::home> homes(2);
      homes[std::size_t(other)]
          = {std::uint64_t(other + 1),
             std::make_shared<shared_wire>(peer, key_of(what), std::vector<int>{other}, nullptr)};
      ends.push_back(std::make_shared<window_group>(
          what, std::move(homes), boards[std::size_t(r)], nullptr, window_tuning{}));
      ends.back()->join(r, tokens[std::size_t(r)]);
    }
  }
  void come(int rank) {
    const auto call = collective_call::barrier();
    ends[std::size_t(rank)]->begin(rank, call);
    ends[std::size_t(rank)]->meet(rank, offer_of(call, {}));
  }

  window_group_description what{.name = "g",
                                .generation = generation_id{1},
                                .homes = {"", ""},
                                .members = {"lane:0", "lane:1"}};
  std::vector<std::shared_ptr<window_board>> boards{window_board::make(), window_board::make()};
  std::vector<cancel_token> tokens{cancel_token(), cancel_token()};
  std::vector<std::shared_ptr<window_group>> ends;
};

}  // namespace

TEST_CASE("mapped arrays of other processes are summed in place, with the same bits",
          "[collective]") {
  const int size = GENERATE(2, 3);
  constexpr std::int64_t n = 50'001;
  std::vector<std::unique_ptr<windows>> all;
  window_group_description what{.name = "g", .generation = generation_id{1}};
  for (int r = 0; r < size; ++r) {
    all.push_back(std::make_unique<windows>(
        window_settings{.process = std::uint64_t(r + 1),
                        .tuning = {.piece = 4096, .cache = 8192, .stretch = 10'000}}));
    what.homes.push_back(all.back()->address());
  }
  std::vector<std::vector<float>> mapped(static_cast<std::size_t>(size)), read = mapped;
  std::vector<int> more(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      auto& mine = *all[std::size_t(r)];
      const auto group = mine.join(what, r, {});
      stream stream(troupe::kernels::backend::cpu, 1, {});
      memory_pool pool;
      const auto sums = [&](const auto& allocate) {
        const memory_block a = allocate(n * 4), b = pool.allocate(n * 4), to = allocate(n * 4);
        auto* const out = reinterpret_cast<float*>(to.get());
        for (std::int64_t i = 0; i < n; ++i) {
          reinterpret_cast<float*>(a.get())[i] = float(i % 71) * (r % 2 == 0 ? 1e6F : 1e-3F);
          reinterpret_cast<float*>(b.get())[i] = float(r + 1) / 3;
        }
        const void* const parts[] = {a.get(), b.get()};
        group->all_reduce_sum(stream, dtype::f32, parts, out, n);
        std::vector<float> said(out, out + n);
        std::vector<std::int64_t> cuts(std::size_t(size - 1), 17);
        cuts.push_back(n);
        group->reduce_scatter_sum(stream, dtype::f32, parts, out, cuts);
        said.insert(said.end(), out, out + (r == 0 ? 17 : 0));
        for (auto& x : cuts)
          x *= 4;
        group->all_gather(stream, a.get(), out, cuts);
        said.insert(said.end(), out, out + n);
        group->broadcast(stream, out, n * 4, 1);
        said.insert(said.end(), out, out + n);
        return said;
      };
      read[std::size_t(r)] = sums([&](std::size_t bytes) { return pool.allocate(bytes); });
      group->barrier();
      const int before = arrays_mapped();
      group->barrier();
      mapped[std::size_t(r)] = sums([&](std::size_t bytes) { return mine.allocate(bytes); });
      group->barrier();
      more[std::size_t(r)] = arrays_mapped() - before;
      group->barrier();
    });
  for (auto& t : threads)
    t.join();
  for (int r = 0; r < size; ++r) {
    CHECK(mapped[std::size_t(r)] == read[std::size_t(r)]);
    // Each process still maps the inputs and results of each other; its own blocks are freed.
    CHECK(more[std::size_t(r)] == 2 * size * (size - 1));
    // One of the two summed parts is mapped; all_gather reads from mapped arrays.
    const auto& counters = all[std::size_t(r)]->counters();
    CHECK(counters.bytes_mapped > 0);
    CHECK(counters.bytes_read > counters.bytes_mapped);
    CHECK(counters.bytes_received == 0);
  }
  // The mappings are removed with the last rank of a process.
  CHECK(arrays_mapped() == 0);
}

TEST_CASE("the pool of a process shares its memory if its windows can share any", "[collective]") {
  std::optional<windows> one(window_settings{.process = 1});
  const windows alone({.process = 2, .shared_memory = false});
  CHECK_FALSE(alone.source());
  memory_pool pool;
  pool.share_by(one->source());
  constexpr std::size_t large = std::size_t{5} << 20;
  auto block = pool.allocate_shared(large);
  CHECK(arrays_mapped() == 1);
  // Aligned for large pages, and zero.
  CHECK(std::uintptr_t(block.get()) % (std::size_t{2} << 20) == 0);
  CHECK(std::all_of(block.get(), block.get() + large, [](auto x) { return x == std::byte{0}; }));
  one.reset();
  block.get()[large - 1] = std::byte{1};
  block.reset();
  CHECK(arrays_mapped() == 0);
}

TEST_CASE("a shared block is mapped within its bounds, and only while it is that block",
          "[collective]") {
  shared_memory memory;
  auto block = memory.allocate(10'000), later = memory.allocate(5000);
  const auto place = memory.find(block.get() + 100, 9000);
  REQUIRE(place);
  CHECK(place->offset == 100);
  CHECK_FALSE(memory.find(block.get() + 100, 20'000));
  const int local = 0;
  CHECK_FALSE(memory.find(&local, 4));
  block.get()[100] = std::byte{7};
  const auto seen = map_shared(::getpid(), *place, 9000);
  REQUIRE(seen);
  CHECK(seen.get()[100] == std::byte{7});
  CHECK_FALSE(map_shared(::getpid(), *place, 20'000));
  auto other = *place;
  other.descriptor = memory.find(later.get(), 1)->descriptor;
  CHECK_FALSE(map_shared(::getpid(), other, 1));
  block.reset();
  CHECK_FALSE(map_shared(::getpid(), *place, 9000));
  CHECK(seen.get()[100] == std::byte{7});  // an existing mapping stays readable
}

TEST_CASE("WINDOW-2: a call fails if a rank left at the last meeting", "[collective][invariant]") {
  two_ends all;
  std::string said;
  std::thread other([&] {
    all.come(1);
    all.tokens[1].cancel();
    said = ending_of([&] { all.ends[1]->meet(1); });  // it arrived, then left
  });
  all.come(0);
  other.join();
  CHECK_THAT(said, StartsWith("cancelled"));
  CHECK(all.ends[0]->wire_of(1).rounds(1) == 2);
  all.tokens[0].cancel();  // ends the wait
  CHECK_THAT(ending_of([&] { all.ends[0]->meet(0); }), StartsWith("cancelled"));
}

TEST_CASE("the wait of a rank names the missing ranks as on the board", "[collective]") {
  two_ends all;
  std::thread waits([&] { ending_of([&] { all.come(0); }); });
  while (all.ends[0]->rounds(0) < 1)
    std::this_thread::yield();
  const auto said = all.ends[0]->missing(0);
  CHECK(said.what == "barrier in 'g'");
  CHECK(said.whom == std::vector<std::string>{"lane:1"});
  all.tokens[0].cancel();
  waits.join();
}

TEST_CASE("WINDOW-8: bytes of a process that reuses the pid of a dead one are not used",
          "[collective][invariant]") {
  const auto board = window_board::make();
  const auto peer = open_peer(address_of(*board, 7));
  REQUIRE(peer->may_read);
  std::vector<std::byte> there(100), here(100);
  shared_wire wire(peer, "g@1", {0}, nullptr);
  window_read read{.at = there.data(), .into = here};
  CHECK(wire.finish(read));
  // The handle now belongs to a dead child; its pid still leads to this process.
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(0);
  ::close(peer->handle);
  peer->handle = int(::syscall(SYS_pidfd_open, child, 0));
  ::waitpid(child, nullptr, 0);
  CHECK_THROWS_MATCHES(wire.finish(read),
                       io_error,
                       MessageMatches(ContainsSubstring("its generation must end")
                                      && ContainsSubstring("in process 7")));
}

TEST_CASE("a late rank still reads the progress of a rank without its group", "[collective]") {
  const auto mine = window_board::make();
  const auto seen = window_board::open(address_of(*mine, 1));
  const int channel = mine->take("g@1", 3);
  mine->post(channel, 9, false, nullptr);
  const auto found = seen->find("g@1", 3);
  REQUIRE(found);
  mine->give_back(channel);
  for (int i = 0; i + 1 < window_board::channels; ++i)
    mine->take("g@2", i);
  CHECK(seen->progress(found->first).serial == found->second);
  CHECK(seen->progress(found->first).rounds == 9);
  CHECK(mine->take("g@3", 0) == channel);
  CHECK(seen->progress(found->first).serial != found->second);
  CHECK_FALSE(seen->find("g@1", 3));
}

TEST_CASE("invalid windows and groups are refused with advice", "[collective]") {
  CHECK_THROWS_MATCHES(windows({.process = 1, .tuning = {.piece = 1 << 30}}),
                       input_error,
                       MessageMatches(ContainsSubstring("a piece has 64 to 16777216 bytes")));
  windows one({.process = 1}), same({.process = 1}), two({.process = 2});
  CHECK_THROWS_MATCHES(
      one.join({"g", axis::data, generation_id{1}, {one.address(), same.address()}}, 0, {}),
      input_error,
      MessageMatches(ContainsSubstring("two processes call themselves process 1")));
  one.release(2, "killed by signal 9");
  CHECK_THROWS_MATCHES(
      one.join({"g", axis::data, generation_id{1}, {one.address(), two.address()}}, 0, {}),
      io_error,
      MessageMatches(ContainsSubstring("process 2 was lost: killed by signal 9")));
}
