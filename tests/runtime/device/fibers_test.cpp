#include "runtime/device/fibers.hpp"

#include "runtime/core/error.hpp"
#include "runtime/device/lane.hpp"

#include <catch2/catch_test_macros.hpp>

#include <mutex>
#include <stdexcept>
#include <string>

using namespace troupe::runtime;

namespace {

/// A condition that the test sets.
struct gate {
  std::mutex mutex;
  wait_condition changed;
  bool open = false;

  void pass() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return open; });
  }
};

void run_all(fiber_pool& pool) {
  for (auto able = pool.runnable(); !able.empty(); able = pool.runnable())
    pool.run(able.front());
}

std::string outcome_of(const std::exception_ptr& failure) {
  try {
    if (failure)
      std::rethrow_exception(failure);
    return "done";
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("a fiber runs up to its next wait, and resumes when the condition holds", "[device]") {
  fiber_pool pool;
  gate door;
  std::string seen;
  const auto one = pool.start("one", [&] {
    seen += "a";
    door.pass();
    seen += "b";
  });
  CHECK(pool.runnable() == std::vector{one});
  pool.run(one);
  CHECK(seen == "a");
  CHECK(pool.runnable().empty());
  door.open = true;
  CHECK(pool.runnable() == std::vector{one});
  pool.run(one);
  CHECK(seen == "ab");
  CHECK(pool.has_ended(one));
  CHECK(pool.alive().empty());
}

TEST_CASE("a sleeping fiber wakes when its clock reaches the time", "[device]") {
  fiber_pool pool;
  pool.set_time(100);
  const auto one = pool.start("one", [] { sleep_for(std::chrono::nanoseconds(50)); });
  CHECK_FALSE(pool.next_wake());
  pool.run(one);
  CHECK(pool.next_wake() == 150);
  CHECK(pool.runnable().empty());
  pool.set_time(150);
  REQUIRE(pool.runnable() == std::vector{one});
  pool.run(one);
  CHECK(pool.has_ended(one));
}

TEST_CASE("a fiber can wait in an exception handler while other fibers throw", "[device]") {
  fiber_pool pool;
  gate door;
  std::string first, second;
  const auto one = pool.start("one", [&] {
    try {
      throw std::runtime_error("first");
    } catch (const std::exception&) {
      door.pass();
      first = outcome_of(std::current_exception());
    }
  });
  pool.run(one);
  CHECK(std::current_exception() == nullptr);
  const auto two = pool.start("two", [&] {
    try {
      throw std::runtime_error("second");
    } catch (const std::exception& e) {
      second = e.what();
    }
  });
  pool.run(two);
  door.open = true;
  pool.run(one);
  CHECK(first == "first");
  CHECK(second == "second");
}

TEST_CASE("a lane on a fiber runs one piece of work per turn and reports each", "[device]") {
  const auto pool = std::make_shared<fiber_pool>();
  gate door;
  std::string seen;
  const auto under_test = make_fiber_lane({.name = "lane"}, pool);
  under_test->submit([&](stream&) { seen += "a"; },
                     [&](const std::exception_ptr& x) { seen += outcome_of(x); });
  under_test->submit([&](stream&) { door.pass(); },
                     [&](const std::exception_ptr& x) { seen += outcome_of(x); });
  CHECK(seen.empty());  // the pool has not run yet
  run_all(*pool);
  CHECK(seen == "adone");
  door.open = true;
  run_all(*pool);
  CHECK(seen == "adonedone");
}

TEST_CASE("destroying a lane on a fiber finishes the work in progress while other fibers run",
          "[device]") {
  const auto pool = std::make_shared<fiber_pool>();
  gate door;
  std::string seen;
  auto under_test
      = make_fiber_lane({.name = "lane", .at_end = [&](stream&) { seen += " end"; }}, pool);
  under_test->submit([&](stream&) { door.pass(); },
                     [&](const std::exception_ptr& x) { seen += outcome_of(x); });
  under_test->submit([&](stream&) { seen += "never"; }, [](const std::exception_ptr&) {});
  run_all(*pool);
  pool->start("opens", [&] { door.open = true; });
  under_test.reset();
  CHECK(seen == "done end");
  CHECK(pool->alive().empty());
  CHECK(pool->stuck().empty());
}

TEST_CASE("a lane on a fiber with endless work is unwound and reported", "[device]") {
  const auto pool = std::make_shared<fiber_pool>();
  gate door;
  std::string seen;
  const auto kept = std::make_shared<int>(1);
  auto under_test = make_fiber_lane({.name = "lane"}, pool);
  under_test->submit(
      [&, kept](stream&) {
        const auto local = kept;
        door.pass();
      },
      [&](const std::exception_ptr& x) { seen = outcome_of(x); });
  run_all(*pool);
  CHECK(kept.use_count() > 2);
  under_test.reset();
  CHECK(pool->stuck() == std::vector<std::string>{"lane"});
  CHECK(seen == cancelled().what());
  CHECK(kept.use_count() == 1);
}

TEST_CASE("a pool of fibers ends the fibers that are left in it", "[device]") {
  gate door;
  bool unwound = false;
  {
    fiber_pool pool;
    const auto one = pool.start("one", [&] {
      const std::shared_ptr<void> at_end(nullptr, [&](void*) { unwound = true; });
      try {
        door.pass();
      } catch (const cancelled&) {
      }
    });
    pool.run(one);
    CHECK_FALSE(unwound);
  }
  CHECK(unwound);
}
