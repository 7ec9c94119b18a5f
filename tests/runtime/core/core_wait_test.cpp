// How long a thread has waited for a core.

#include "runtime/core/core_wait.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <thread>

using namespace troupe::runtime;

TEST_CASE("what the system says of a thread has the wait for a core in the second place",
          "[core]") {
  CHECK(waited_ns_in("78409232 1716398252 38\n") == 1716398252);
  CHECK(waited_ns_in("5\n") == 0);
  CHECK(waited_ns_in("") == 0);
}

TEST_CASE("a thread waits for a core no longer than it has been there", "[core]") {
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  std::thread([&] {
    core_wait x;
    std::uint64_t last = x.ns();
    for (int i = 0; i < 100; ++i) {
      const auto now = x.ns();
      CHECK(now >= last);
      last = now;
    }
    CHECK(std::chrono::nanoseconds(last) <= clock::now() - begin);
  }).join();
}
