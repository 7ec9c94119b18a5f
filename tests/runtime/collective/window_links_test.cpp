// Groups between living processes after a break of their connection.

#include "runtime/collective/window/windows.hpp"
#include "runtime/core/error.hpp"
#include "tests/support/memory_wire.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
namespace kernels = troupe::kernels;

namespace {

/// Two processes without shared memory, and a group of both.
struct linked_windows {
  linked_windows() {
    for (std::uint64_t p = 1; p <= 2; ++p) {
      window_settings settings{.process = p, .shared_memory = false};
      settings.make_wire = [&](wire_owner& owner) {
        auto out = std::make_unique<memory_wire>(owner);
        wires.push_back(out.get());
        return out;
      };
      settings.broke = [&](std::uint64_t process, generation_id in, const std::string&) {
        const std::lock_guard lock(mutex);
        told.emplace_back(process, in);
      };
      all.push_back(std::make_unique<windows>(settings));
      what.homes.push_back(all.back()->address());
    }
  }

  /// Sums on both ranks, at most `most` times or until a failure; returns each rank's error.
  std::vector<std::string> sum(int most) {
    std::vector<std::string> said(2);
    std::vector<std::thread> threads;
    for (int r = 0; r < 2; ++r)
      threads.emplace_back([&, r] {
        try {
          sum_as(r, most);
        } catch (const std::exception& failure) {
          said[std::size_t(r)] = failure.what();
        }
      });
    for (auto& t : threads)
      t.join();
    return said;
  }
  void cut() {
    for (const std::uint64_t number : {1, 2})
      wires[0]->close(peer_number(number), "it was cut");
  }
  std::vector<std::pair<std::uint64_t, generation_id>> breaks() {
    const std::lock_guard lock(mutex);
    return told;
  }

  std::vector<memory_wire*> wires;
  std::mutex mutex;
  std::vector<std::pair<std::uint64_t, generation_id>> told;
  // Destroyed first: windows still report while they end.
  std::vector<std::unique_ptr<windows>> all;
  window_group_description what{.name = "g", .along = axis::data, .generation = generation_id{1}};
  std::atomic<int> sums = 0;

 private:
  void sum_as(int rank, int most) {
    const auto mine = all[std::size_t(rank)]->join(what, rank, {});
    stream stream(kernels::backend::cpu, 1, {});
    const std::vector<float> own(100, 1);
    std::vector<float> to(100);
    const void* const part = own.data();
    for (int i = 0; i < most; ++i, ++sums)
      mine->all_reduce_sum(stream, dtype::f32, {&part, 1}, to.data(), 100);
  }
};

const std::vector<std::string> nothing(2);

}  // namespace

TEST_CASE("two processes use one connection for all sums", "[collective]") {
  linked_windows it;
  for (const char* const name : {"g", "h"}) {
    it.what.name = name;
    CHECK(it.sum(3) == nothing);
  }
  for (const auto* const wire : it.wires)
    CHECK(wire->connections() == 1);
}

TEST_CASE("LINK-1: after a broken connection the next generation uses a new one", "[collective]") {
  linked_windows it;
  std::thread cuts([&] {
    while (it.sums < 10)
      std::this_thread::yield();
    it.cut();
  });
  const auto said = it.sum(1 << 30);
  cuts.join();
  for (const auto& x : said)
    CHECK_THAT(x, ContainsSubstring("its generation must end"));
  // Until then the process cannot join another group with that peer.
  it.what.name = "h";
  CHECK_THROWS_AS(it.all[0]->join(it.what, 0, {}), peer_lost);
  it.what.generation = generation_id{2};
  CHECK(it.sum(3) == nothing);
  const auto breaks = it.breaks();
  CHECK(breaks.size() == 2);  // one report per process
  for (const auto& [process, in] : breaks)
    CHECK(in == generation_id{1});
}

TEST_CASE("LINK-1: a late report of a broken connection does not reach groups on the new one",
          "[collective]") {
  linked_windows it;
  REQUIRE(it.sum(3) == nothing);
  it.wires[1]->hold_losses();
  it.cut();
  for (const std::size_t p : {0, 1})
    it.all[p]->renew_connections(2 - p, "a connection broke");
  it.what.generation = generation_id{2};
  CHECK(it.sum(3) == nothing);
  it.wires[1]->hear_losses();
  it.what.name = "h";
  CHECK(it.sum(3) == nothing);
  for (const auto& [process, in] : it.breaks())
    CHECK(in == generation_id{1});
}
