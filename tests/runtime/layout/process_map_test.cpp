// Which process hosts which rank, and who keeps whose states.

#include "runtime/layout/process_map.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>

using namespace troupe::runtime;

TEST_CASE("every rank is in one process, ranks are contiguous and shared out evenly",
          "[runtime][layout]") {
  for (int world = 1; world <= 17; ++world)
    for (int processes = 1; processes <= world; ++processes) {
      const process_map all(world, processes);
      int next = 0;
      for (int p = 0; p < processes; ++p) {
        REQUIRE(all.first_of(p) == next);
        next = all.end_of(p);
        const int size = next - all.first_of(p);
        REQUIRE(size >= world / processes);
        REQUIRE(size <= (world + processes - 1) / processes);
        for (int r = all.first_of(p); r < next; ++r)
          REQUIRE(all.process_of(r) == p);
      }
      REQUIRE(next == world);
    }
}

TEST_CASE("a process is kept in another one, on another host where there is one",
          "[runtime][layout]") {
  const std::vector<std::vector<std::string>> cases = {{"a", "a"},
                                                       {"a", "b"},
                                                       {"a", "a", "a"},
                                                       {"a", "b", "a", "b"},
                                                       {"a", "a", "b", "b", "c"},
                                                       {"b", "a", "a", "c", "b", "c", "a"}};
  for (const auto& hosts : cases) {
    const auto keepers = keepers_of(hosts);
    REQUIRE(keepers.size() == hosts.size());
    const std::set<std::string> all(hosts.begin(), hosts.end());
    for (std::size_t p = 0; p < hosts.size(); ++p) {
      CHECK(keepers[p] != int(p));
      if (all.size() > 1)
        CHECK(hosts[std::size_t(keepers[p])] != hosts[p]);
    }
    CHECK(std::set<int>(keepers.begin(), keepers.end()).size() == hosts.size());  // one each
  }
  CHECK(keepers_of({"a"}).empty());
}
