// The mapping of ranks to processes.

#include "runtime/layout/process_map.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::runtime;

TEST_CASE("every rank is in one process; ranks are contiguous and evenly distributed",
          "[runtime][layout]") {
  for (int world = 1; world <= 17; ++world)
    for (int processes = 1; processes <= world; ++processes) {
      const process_map all(world, processes);
      int next = 0;
      for (int p = 0; p < processes; ++p) {
        const int size = int(all.ranks_of(p).size());
        REQUIRE(size >= world / processes);
        REQUIRE(size <= (world + processes - 1) / processes);
        for (const int r : all.ranks_of(p)) {
          REQUIRE(r == next++);
          REQUIRE(all.process_of(r) == p);
        }
      }
      REQUIRE(next == world);
    }
}

TEST_CASE("PLACED-1: a table gives the ranks of each process; each has one",
          "[runtime][layout][invariant]") {
  const process_map all({1, 0, 1, 0, 0});
  CHECK(all.processes() == 2);
  CHECK(all.process_of(2) == 1);
  CHECK(all.ranks_of(0) == std::vector<int>{1, 3, 4});
  CHECK(all.ranks_of(1) == std::vector<int>{0, 2});
  for (const std::vector<int>& table : {std::vector<int>{0, 2, 2}, {-1, 0}, {0, 5}})
    CHECK_THROWS_AS(process_map(table), broken_promise);
}
