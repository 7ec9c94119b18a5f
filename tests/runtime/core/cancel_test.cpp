#include "runtime/core/cancel.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>

#include <condition_variable>
#include <mutex>
#include <thread>

using namespace troupe::runtime;

TEST_CASE("cancelling wakes threads that sleep", "[core]") {
  const cancel_token token;
  std::mutex mutex;
  std::condition_variable changed;
  std::thread sleeper([&] {
    const auto awake = token.on_cancel([&] {
      const std::lock_guard lock(mutex);
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return token.is_cancelled(); });
  });
  token.cancel();
  sleeper.join();
  CHECK_THROWS_AS(token.throw_if_cancelled(), cancelled);
}

TEST_CASE("a waker is called once, and not after its handle died", "[core]") {
  const cancel_token token;
  int calls = 0;
  auto kept = token.on_cancel([&] { ++calls; });
  {
    const auto dropped = token.on_cancel([&] { calls += 100; });
  }
  token.cancel();
  token.cancel();
  CHECK(calls == 1);
  const auto late = token.on_cancel([&] { ++calls; });
  CHECK(calls == 2);
}
