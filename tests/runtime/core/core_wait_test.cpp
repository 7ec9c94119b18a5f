// Measures how long a thread waits for a core.

#include "runtime/core/core_wait.hpp"

#include <catch2/catch_test_macros.hpp>

#include <fstream>
#include <iterator>
#include <string>
#include <thread>

using namespace troupe::runtime;

namespace {

/// Wait time of the calling thread in ns; 0 where the system does not report it.
std::uint64_t said_by_the_system() {
  std::ifstream file("/proc/thread-self/schedstat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return waited_ns_in(text.c_str());
}

}  // namespace

TEST_CASE("the second number of schedstat is the time that a thread waited for a core", "[core]") {
  CHECK(waited_ns_in("78409232 1716398252 38\n") == 1716398252);
  CHECK(waited_ns_in("5\n") == 0);
  CHECK(waited_ns_in("") == 0);
}

TEST_CASE("a thread waits for a core as long as the system says", "[core]") {
  std::thread([] {
    core_wait x;
    std::uint64_t last = 0;
    for (int i = 0; i < 100; ++i) {
      const auto before = said_by_the_system();
      const auto now = x.ns();
      CHECK(before <= now);
      CHECK(now <= said_by_the_system());
      CHECK(last <= now);
      last = now;
      std::this_thread::yield();
    }
  }).join();
}

TEST_CASE("a thread's wait for a core is kept when the system stops reporting it", "[core]") {
  core_wait x;
  std::uint64_t waited = 0;
  std::thread([&] {
    // A new thread waits for its first core.
    for (int i = 0; i < 1000 && waited == 0; ++i) {
      std::this_thread::yield();
      waited = x.ns();
    }
  }).join();
  CHECK(x.ns() >= waited);  // the thread has ended, so the system reports nothing for it
}
