// How long a thread has waited for a core.

#include "runtime/core/core_wait.hpp"

#include <catch2/catch_test_macros.hpp>

#include <fstream>
#include <iterator>
#include <string>
#include <thread>

using namespace troupe::runtime;

namespace {

/// Of this thread; 0 where it does not say.
std::uint64_t said_by_the_system() {
  std::ifstream file("/proc/thread-self/schedstat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return waited_ns_in(text.c_str());
}

}  // namespace

TEST_CASE("what the system says of a thread has the wait for a core in the second place",
          "[core]") {
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

TEST_CASE("what has been waited for a core is not forgotten when the system says nothing more",
          "[core]") {
  core_wait x;
  std::uint64_t waited = 0;
  std::thread([&] {
    // A thread that begins has waited for its first core.
    for (int i = 0; i < 1000 && waited == 0; ++i) {
      std::this_thread::yield();
      waited = x.ns();
    }
  }).join();
  CHECK(x.ns() >= waited);  // of a thread that is no more nothing can be read
}
