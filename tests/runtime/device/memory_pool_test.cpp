#include "runtime/device/memory_pool.hpp"

#include "kernels/op/sum.hpp"
#include "runtime/core/error.hpp"
#include "runtime/device/stream.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <random>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace troupe::runtime;
namespace kernels = troupe::kernels;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("every block is aligned to 64 bytes and has the requested size", "[device]") {
  memory_pool pool;
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 255, 256, 257, 4095, 70001, 3 << 20}) {
    CAPTURE(bytes);
    const auto block = pool.allocate(bytes);
    CHECK(std::uintptr_t(block.get()) % 64 == 0);
    std::memset(block.get(), 0x5A, bytes);  // sanitizers detect a block that is too small
  }
}

// Sanitizers delay the release of memory.
TEST_CASE("unused memory is returned to the system, and used memory stays",
          "[device][unsanitized]") {
  const auto resident = [] {
    std::int64_t all = 0, pages = 0;
    std::ifstream("/proc/self/statm") >> all >> pages;
    return pages * ::sysconf(_SC_PAGESIZE);
  };
  constexpr std::size_t bytes = std::size_t{64} << 20;
  memory_pool pool;
  const auto kept = pool.allocate(1000);
  std::memset(kept.get(), 0x5A, 1000);
  auto block = pool.allocate(bytes);
  std::memset(block.get(), 1, bytes);
  block.reset();
  const auto before = resident();
  pool.release_idle();
  CHECK(before - resident() > std::int64_t(bytes) / 2);
  CHECK(pool.bytes_in_use() > 0);
  CHECK(kept.get()[999] == std::byte{0x5A});
}

TEST_CASE("shared blocks come from their source, return to it, and count as all others",
          "[device]") {
  int out = 0;
  bool has_more = true;
  std::vector<std::size_t> asked;
  memory_pool pool, like;
  pool.share_by([&](std::size_t bytes) -> memory_block {
    asked.push_back(bytes);
    if (!has_more)
      return nullptr;
    ++out;
    return {new std::byte[bytes], [&out](const std::byte* x) {
              --out;
              delete[] x;
            }};
  });
  auto shared = pool.allocate_shared(70'001);
  const auto ordinary = like.allocate(70'001);
  CHECK(out == 1);
  REQUIRE(asked.size() == 1);
  CHECK(asked.front() == pool.bytes_in_use());  // the requested size equals the counted one
  CHECK(pool.bytes_in_use() == like.bytes_in_use());
  CHECK(kind_of(shared) == memory_kind::host);
  auto copy = shared;
  shared.reset();
  CHECK(out == 1);
  copy.reset();
  CHECK(out == 0);  // shared blocks are returned at once, without a cache
  CHECK(pool.bytes_in_use() == 0);
  has_more = false;
  shared = pool.allocate_shared(70'001);
  CHECK(asked.size() == 2);
  CHECK(shared != nullptr);
  CHECK(pool.bytes_in_use() == like.bytes_in_use());
  pool.share_by({});
  const auto last = pool.allocate_shared(1);
  CHECK(asked.size() == 2);
  auto counting = memory_pool::shadow();
  counting.share_by([](std::size_t) { return memory_block(); });
  const auto counted = counting.allocate_shared(70'001);
  CHECK(counting.bytes_in_use() == like.bytes_in_use());
}

TEST_CASE("a returned block is handed out again", "[device]") {
  memory_pool pool;
  auto block = pool.allocate(1000);
  const auto* const place = block.get();
  block.reset();
  CHECK(pool.allocate(1000).get() == place);
  CHECK(pool.allocate(1024).get() == place);  // the same size class
  const auto held = pool.allocate(1000);
  CHECK(pool.allocate(1000).get() != place);
}

TEST_CASE("a block is returned with its last copy", "[device]") {
  memory_pool pool;
  auto block = pool.allocate(512);
  auto copy = block;
  block.reset();
  CHECK(pool.bytes_in_use() == 512);
  copy.reset();
  CHECK(pool.bytes_in_use() == 0);
}

TEST_CASE("at most a quarter of a block is padding", "[device]") {
  memory_pool pool;
  for (std::size_t bytes = 256; bytes < 100000; bytes += 37) {
    const auto block = pool.allocate(bytes);
    CHECK(pool.bytes_in_use() >= bytes);
    CHECK(pool.bytes_in_use() <= bytes + bytes / 4);
  }
}

TEST_CASE("the peak is the maximum in use since the last reset", "[device]") {
  memory_pool pool;
  { const auto a = pool.allocate(1024), b = pool.allocate(2048); }
  const auto c = pool.allocate(512);
  CHECK(pool.bytes_in_use() == 512);
  CHECK(pool.peak_bytes() == 3072);
  pool.reset_peak();
  CHECK(pool.peak_bytes() == 512);
}

TEST_CASE("blocks outlive their pool, and copies share it", "[device]") {
  std::optional<memory_pool> pool(std::in_place);
  const auto copy = *pool;
  auto block = pool->allocate(4096);
  CHECK(copy.bytes_in_use() == 4096);
  pool.reset();
  std::memset(block.get(), 1, 4096);
  CHECK(copy.bytes_in_use() == 4096);

  memory_block alone = memory_pool().allocate(4096);
  std::memset(alone.get(), 1, 4096);
}

TEST_CASE("an allocation failure says the requested size and is not counted", "[device]") {
  memory_pool pool;
  const auto held = pool.allocate(1024);
  for (const auto much : {std::size_t{1} << 60, std::numeric_limits<std::size_t>::max() - 3}) {
    CHECK_THROWS_MATCHES(pool.allocate(much),
                         io_error,
                         Catch::Matchers::MessageMatches(ContainsSubstring("out of memory")
                                                         && ContainsSubstring("`batch.micro`")));
    CHECK(pool.bytes_in_use() == 1024);
    CHECK(pool.peak_bytes() == 1024);
  }
}

TEST_CASE("threads that share a pool never get the same block", "[device]") {
  memory_pool pool;
  std::vector<std::thread> threads;
  std::vector<int> foreign(4);
  for (int who = 0; who < 4; ++who)
    threads.emplace_back([&pool, &foreign, who] {
      std::mt19937 rng(static_cast<unsigned>(who));
      std::vector<std::pair<memory_block, std::size_t>> held(8);
      for (int i = 0; i < 2000; ++i) {
        auto& [block, size] = held[rng() % held.size()];
        for (std::size_t k = 0; k < size; ++k)
          foreign[std::size_t(who)] += block.get()[k] != std::byte(who);
        size = 1 + rng() % 600;
        block = pool.allocate(size);
        std::memset(block.get(), who, size);
      }
    });
  for (auto& t : threads)
    t.join();
  CHECK(foreign == std::vector<int>(4, 0));
  CHECK(pool.bytes_in_use() == 0);
}

TEST_CASE("a stream gives its operations the scratch memory that they declare", "[device]") {
  const auto x = troupe::tests::normal<float>(10000, 1);
  memory_pool pool;
  stream stream(kernels::backend::cpu, 1, pool);
  double small = 0, large = 0, again = 0;
  stream.run(kernels::square_norm<float>{&small, x.data(), 100});
  stream.run(kernels::square_norm<float>{&large, x.data(), 10000});
  const auto kept = pool.bytes_in_use();
  stream.run(kernels::square_norm<float>{&again, x.data(), 100});
  CHECK(pool.bytes_in_use() == kept);
  CHECK(small == again);
  CHECK(large > small);
}
