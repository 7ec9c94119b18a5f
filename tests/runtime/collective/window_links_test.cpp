// Groups between processes whose connection breaks while both live.

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

TEST_CASE("LINK-1: after a connection broke groups of the next generation are joined over another",
          "[collective]") {
  std::vector<memory_wire*> wires;
  std::mutex mutex;
  std::vector<std::pair<std::uint64_t, generation_id>> told;
  std::vector<std::unique_ptr<windows>> all;  // while they end they still tell
  window_group_description what{.name = "g", .along = axis::data, .generation = generation_id{1}};
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
  std::atomic<int> sums = 0;
  std::vector<std::string> said(2);
  const auto sum_as = [&](int rank, int most) {
    const auto mine = all[std::size_t(rank)]->join(what, rank, {});
    stream stream(kernels::backend::cpu, 1, {});
    const std::vector<float> own(100, 1);
    std::vector<float> to(100);
    const void* const part = own.data();
    for (int i = 0; i < most; ++i, ++sums)
      mine->all_reduce_sum(stream, dtype::f32, {&part, 1}, to.data(), 100);
  };
  const auto sum_until_it_fails = [&](int most) {
    std::vector<std::thread> threads;
    for (int r = 0; r < 2; ++r)
      threads.emplace_back([&, r] {
        said[std::size_t(r)].clear();
        try {
          sum_as(r, most);
        } catch (const std::exception& failure) {
          said[std::size_t(r)] = failure.what();
        }
      });
    for (auto& t : threads)
      t.join();
  };
  std::thread cuts([&] {
    while (sums < 10)
      std::this_thread::yield();
    for (const std::uint64_t number : {1, 2})
      wires[0]->close(peer_number(number), "it was cut");
  });
  sum_until_it_fails(1 << 30);
  cuts.join();
  for (const auto& x : said)
    CHECK_THAT(x, ContainsSubstring("its generation must end"));
  // As long as that lasts nobody joins another group with it.
  what.name = "h";
  CHECK_THROWS_AS(all[0]->join(what, 0, {}), peer_lost);
  what.generation = generation_id{2};
  sum_until_it_fails(3);
  CHECK(said == std::vector<std::string>(2));
  const std::lock_guard lock(mutex);
  CHECK(told.size() == 2);  // by each once
  for (const auto& [process, in] : told)
    CHECK(in == generation_id{1});
}
