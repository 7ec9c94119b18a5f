// The mapping of ranks to processes, and of processes to the keepers of their state.

#include "runtime/layout/process_map.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>

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

TEST_CASE("the keeper of a process is another process, on another host if possible",
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

TEST_CASE("keepers depend on which processes share a host, not on host names",
          "[runtime][layout]") {
  CHECK(keepers_of({"a", "c", "b"}) == keepers_of({"10.0.0.7", "10.0.0.8", "10.0.0.9"}));
  CHECK(keepers_of({"z", "z", "m", "a", "m"}) == keepers_of({"1", "1", "2", "3", "2"}));
}

TEST_CASE("KEEPER-3: after a move, as few processes as possible get a new keeper",
          "[runtime][layout]") {
  using keepers = std::vector<int>;
  const keepers before = keepers_of({"a", "a", "b", "b", "c", "c"});
  REQUIRE(before == keepers{2, 3, 4, 5, 0, 1});
  CHECK(keepers_again(before, {"a", "a", "b", "b", "c", "c"}) == before);
  CHECK(keepers_again({}, {"a", "b"}) == keepers_of({"a", "b"}));
  // Host b is gone; its processes are now on the others.
  const std::vector<std::string> fewer = {"a", "a", "a", "c", "c", "c"};
  const auto after = keepers_again(before, fewer);
  int others = 0;
  for (std::size_t p = 0; p < after.size(); ++p) {
    CHECK(fewer[p] != fewer[std::size_t(after[p])]);
    others += after[p] == before[p] ? 0 : 1;
  }
  CHECK(others == 2);
  CHECK(std::set<int>(after.begin(), after.end()).size() == after.size());
  // Host b is back; the keepers still fit.
  CHECK(keepers_again(after, {"a", "a", "b", "c", "c", "c"}) == after);
}

TEST_CASE("keepers stay where a change gains nothing", "[runtime][layout]") {
  using keepers = std::vector<int>;
  CHECK(keepers_again({1, 2, 0}, {"a", "b", "a"}) == keepers{1, 2, 0});  // no better one
  CHECK(keepers_again({1, 0}, {"a", "a"}) == keepers{1, 0});
  CHECK(keepers_again({2, 3, 0, 1}, {"a", "a", "a", "a"}) == keepers{2, 3, 0, 1});
}

TEST_CASE("keepers are assigned from scratch where swaps do not help", "[runtime][layout]") {
  // After a move, at most as many keepers share the host as in a new assignment.
  const std::vector<std::string> names = {"a", "b", "c"};
  for (int from = 0; from < 243; from += 7)
    for (int to = 0; to < 243; to += 5) {
      std::vector<std::string> first, then;
      for (int i = 0, x = from, y = to; i < 5; ++i, x /= 3, y /= 3) {
        first.push_back(names[std::size_t(x % 3)]);
        then.push_back(names[std::size_t(y % 3)]);
      }
      const auto beside = [&](const std::vector<int>& keepers) {
        int out = 0;
        for (std::size_t p = 0; p < keepers.size(); ++p)
          out += then[p] == then[std::size_t(keepers[p])] ? 1 : 0;
        return out;
      };
      const auto again = keepers_again(keepers_of(first), then);
      REQUIRE(beside(again) <= beside(keepers_of(then)));
      for (std::size_t p = 0; p < again.size(); ++p)
        REQUIRE(again[p] != int(p));
      REQUIRE(std::set<int>(again.begin(), again.end()).size() == again.size());
    }
}
