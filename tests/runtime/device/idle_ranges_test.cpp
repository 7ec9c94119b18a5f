#include "runtime/device/idle_ranges.hpp"

#include "runtime/core/error.hpp"
#include "runtime/device/device.hpp"
#include "runtime/device/memory_pool.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

/// An address for tests; the memory is never accessed.
std::byte* somewhere(std::size_t offset) {
  static std::byte all[4096];
  return all + offset;
}

/// An event that passes when the test sets `done`.
struct told_event final : device_event {
  bool done = false;

  bool passed() const override { return done; }
  void wait() const override {}
  double ms_after(const device_event&) const override { return 0; }
};

std::set<const device_event*> events_of(const idle_ranges::range& x) {
  std::set<const device_event*> out;
  for (const auto& event : x.used)
    out.insert(event.get());
  return out;
}

/// Memory use of one step: activations of a few sizes are allocated, then freed in reverse order,
/// while larger gradients are allocated.
void step(memory_pool& pool) {
  std::vector<memory_block> activations, gradients;
  for (int layer = 0; layer < 12; ++layer)
    for (const std::size_t size : {2 * mib, 6 * mib, 2 * mib, 3 * mib})
      activations.push_back(pool.allocate(size));
  for (int layer = 0; layer < 12; ++layer) {
    for (int i = 0; i < 4; ++i)
      activations.pop_back();
    gradients.push_back(pool.allocate(10 * mib));
    const auto passing = pool.allocate(2 * mib);
  }
}

}  // namespace

TEST_CASE("idle memory is split for smaller requests and joined with free neighbours", "[device]") {
  idle_ranges x;
  CHECK_FALSE(x.take(1));
  x.add_segment(somewhere(0), 100);
  x.add_segment(somewhere(1000), 40);
  CHECK(x.held() == 140);
  auto a = x.take(30);
  REQUIRE(a);
  CHECK(a->at == somewhere(1000));  // best fit: the smallest sufficient range
  auto b = x.take(30), c = x.take(60);
  REQUIRE((b && c));
  CHECK(b->at == somewhere(0));
  CHECK(c->at == somewhere(30));
  CHECK_FALSE(x.take(20));
  x.give(std::move(*b));
  CHECK_FALSE(x.take(35));
  x.give(std::move(*c));  // joins the ranges before and behind
  const auto all = x.take(100);
  REQUIRE(all);
  CHECK(all->at == somewhere(0));
  x.give(*all);
  CHECK(x.take_whole_segments().size() == 1);  // a part of the other segment is in use
  CHECK(x.held() == 40);
  x.give(std::move(*a));
  CHECK(x.take_whole_segments().size() == 1);
  CHECK(x.held() == 0);
}

TEST_CASE("a part of joined memory waits only for the events of that part", "[device]") {
  idle_ranges x;
  x.add_segment(somewhere(0), 90);
  std::vector<idle_ranges::range> parts;
  std::vector<std::shared_ptr<told_event>> used;
  for (int i = 0; i < 3; ++i) {
    parts.push_back(*x.take(30));
    used.push_back(std::make_shared<told_event>());
  }
  for (const std::size_t i : {0, 2, 1}) {
    parts[i].used = {used[i]};
    x.give(parts[i]);
  }
  using events = std::set<const device_event*>;
  auto first = x.take(20), second = x.take(20), third = x.take(50);
  REQUIRE((first && second && third));
  CHECK(events_of(*first) == events{used[0].get()});
  CHECK(events_of(*second) == events{used[0].get(), used[1].get()});
  CHECK(events_of(*third) == events{used[1].get(), used[2].get()});
  for (auto* const part : {&*first, &*second, &*third})
    x.give(*part);
  const auto whole = x.take_whole_segments();  // a whole segment waits for all its events
  REQUIRE(whole.size() == 1);
  CHECK(events_of(whole.front()) == events{used[0].get(), used[1].get(), used[2].get()});
}

// Compares with a list of the last event per byte.
TEST_CASE("a range has exactly the pending events of its bytes", "[device]") {
  constexpr std::size_t size = 512;
  idle_ranges x;
  x.add_segment(somewhere(0), size);
  std::vector<std::shared_ptr<told_event>> last(size);
  std::vector<idle_ranges::range> held;
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    if (auto taken = random() % 2 == 0 ? x.take(1 + random() % 60) : std::nullopt) {
      std::set<const device_event*> expected;
      const auto begin = std::size_t(taken->at - somewhere(0));
      for (std::size_t at = begin; at < begin + taken->bytes; ++at) {
        if (last[at] != nullptr && !last[at]->done)
          expected.insert(last[at].get());
        last[at] = nullptr;
      }
      auto found = events_of(*taken);
      std::erase_if(found, [](const auto* e) { return e->passed(); });
      REQUIRE(found == expected);
      held.push_back(std::move(*taken));
    } else if (!held.empty()) {
      const auto which = random() % held.size();
      auto back = held[which];
      held.erase(held.begin() + std::ptrdiff_t(which));
      back.used.clear();
      if (random() % 3 != 0) {
        auto event = std::make_shared<told_event>();
        back.used = {event};
        std::fill_n(last.begin() + (back.at - somewhere(0)), back.bytes, event);
      }
      x.give(std::move(back));
    } else if (const auto& event = last[random() % size]) {
      event->done = true;
    }
    if (const auto& event = last[random() % size]; event != nullptr && random() % 4 == 0)
      event->done = true;
  }
}

TEST_CASE("POOL-3: memory that is returned to a pool was taken from it", "[device]") {
  idle_ranges x;
  const auto refused = [&](std::size_t offset, std::size_t bytes) {
    CHECK_THROWS_MATCHES(
        x.give({somewhere(offset), bytes}), broken_promise, MessageMatches(StartsWith("POOL-3")));
  };
  refused(100, 10);
  x.add_segment(somewhere(100), 50);
  refused(0, 10);
  REQUIRE(x.take(50));
  refused(100, 51);
  refused(150, 1);
}

TEST_CASE("memory in use is never handed out again, in any order of returns", "[device]") {
  memory_pool pool;
  std::mt19937 random(7);
  struct held {
    memory_block block;
    std::size_t bytes;
    int mark;
  };
  std::vector<held> all;
  std::size_t used = 0;
  for (int i = 1; i <= 600; ++i) {
    if (all.size() > 8 && random() % 2 == 0) {
      const auto which = random() % all.size();
      const auto& x = all[which];
      CHECK(x.block.get()[0] == std::byte(x.mark));
      CHECK(x.block.get()[x.bytes - 1] == std::byte(x.mark));
      std::swap(all[which], all.back());
      all.pop_back();
      continue;
    }
    const std::size_t bytes = mib + random() % (4 * mib);
    all.push_back({pool.allocate(bytes), bytes, i % 251});
    all.back().block.get()[0] = all.back().block.get()[bytes - 1] = std::byte(i % 251);
    CHECK(std::uintptr_t(all.back().block.get()) % 64 == 0);
    used = std::max(used, pool.bytes_in_use());
  }
  CHECK(pool.held_bytes() >= used);
  all.clear();
  pool.release_idle();
  CHECK(pool.held_bytes() == 0);
}

TEST_CASE("gradients reuse the memory of activations, and later steps need no more memory",
          "[device]") {
  memory_pool pool;
  const auto state = pool.allocate(512 * mib);  // stays allocated, and is not accessed here
  step(pool);
  CHECK(pool.peak_bytes() == 512 * mib + 12 * 13 * mib);
  // Separate pools per size would need 12 * (13 + 10) MiB.
  CHECK(pool.held_bytes() <= pool.peak_bytes() + pool.peak_bytes() / 8);
  step(pool);
  const auto held = pool.held_bytes();
  for (int again = 0; again < 3; ++again) {
    step(pool);
    CHECK(pool.held_bytes() == held);
  }
  CHECK(pool.bytes_in_use() == 512 * mib);
}

TEST_CASE("segments grow with the memory held, up to 512 MiB", "[device]") {
  CHECK(segment_size(3 * mib, 0) == 3 * mib);
  CHECK(segment_size(3 * mib, 100 * mib) == 12 * mib);
  CHECK(segment_size(3 * mib, 100'000 * mib) == 512 * mib);
  CHECK(segment_size(700 * mib, 100'000 * mib) == 700 * mib);
}
