// Units that are closed until their values have arrived.

#include "runtime/core/error.hpp"
#include "runtime/parameters/resident_store.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <chrono>
#include <thread>

using namespace troupe::runtime;
using namespace std::chrono_literals;

namespace {

struct fixture {
  resident_store store{{{"a", {{.name = "x", .extents = {4}}}},
                        {"b", {{.name = "y", .extents = {4}}}},
                        {"c", {{.name = "z", .extents = {4}}}}},
                       1,
                       {}};
  cancel_token token;
};

}  // namespace

TEST_CASE_METHOD(fixture, "acquiring waits for a unit with a closed gate only", "[gate]") {
  store.close_gate(token);
  store.open_gate(1);
  store.acquire(1);  // at once
  store.release(1);
  std::atomic<bool> shown = false;
  std::thread other([&] {
    std::this_thread::sleep_for(5ms);
    shown = true;
    store.open_gate(0);
  });
  store.acquire(0);
  CHECK(shown);
  CHECK(store.value(0, 0) != nullptr);
  store.release(0);
  other.join();
  store.acquire(0);  // stays open
  store.release(0);
}

TEST_CASE_METHOD(fixture, "closing closes gates that were open", "[gate]") {
  for (int round = 0; round < 3; ++round) {
    store.close_gate(token);
    std::atomic<int> shown = 0;
    std::thread other([&] {
      for (int unit = 0; unit < 3; ++unit) {
        std::this_thread::sleep_for(1ms);
        ++shown;
        store.open_gate(unit);
      }
    });
    for (int unit = 0; unit < 3; ++unit) {
      store.acquire(unit);
      CHECK(shown > unit);
      store.release(unit);
    }
    other.join();
  }
}

TEST_CASE_METHOD(fixture, "without closed gates, acquiring does not wait", "[gate]") {
  store.open_gate(2);
  for (int unit = 0; unit < 3; ++unit) {
    store.acquire(unit);
    store.release(unit);
  }
  SUCCEED();
}

TEST_CASE_METHOD(fixture, "the end of a generation releases waiting threads", "[gate]") {
  store.close_gate(token);
  std::thread end([&] {
    std::this_thread::sleep_for(5ms);
    token.cancel();
  });
  CHECK_THROWS_AS(store.acquire(0), cancelled);
  end.join();
  CHECK_THROWS_AS(store.acquire(1), cancelled);  // at once
  CHECK_THROWS_AS(store.value(1, 0), broken_promise);
  store.open_gate(2);
  CHECK_NOTHROW(store.acquire(2));  // its values are there
}

TEST_CASE_METHOD(fixture, "gates close under the given token", "[gate]") {
  store.close_gate(token);
  for (int unit = 0; unit < 3; ++unit)
    store.open_gate(unit);
  const cancel_token next;
  store.close_gate(next);
  token.cancel();  // the token of the previous generation
  std::thread show([&] {
    std::this_thread::sleep_for(5ms);
    store.open_gate(0);
  });
  CHECK_NOTHROW(store.acquire(0));
  show.join();
  std::thread end([&] {
    std::this_thread::sleep_for(5ms);
    next.cancel();
  });
  CHECK_THROWS_AS(store.acquire(1), cancelled);
  end.join();
}
