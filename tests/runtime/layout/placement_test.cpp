// The placement of ranks and processes on hosts.

#include "runtime/layout/placement.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>
#include <string>
#include <vector>

using namespace troupe::runtime;

namespace {

std::vector<host_slots> hosts_with(const std::vector<int>& slots) {
  std::vector<host_slots> out;
  for (std::size_t h = 0; h < slots.size(); ++h)
    out.push_back({.name = std::string(1, char('a' + h)), .slots = slots[h]});
  return out;
}

}  // namespace

TEST_CASE("PLACE-1: each process is on one host, in the order of hosts; later hosts are spares",
          "[runtime][layout][invariant]") {
  using hosts = std::vector<int>;
  CHECK(hosts_of_processes(4, hosts_with({2, 2})) == hosts{0, 0, 1, 1});
  CHECK(hosts_of_processes(6, hosts_with({2, 4})) == hosts{0, 0, 1, 1, 1, 1});
  CHECK(hosts_of_processes(3, hosts_with({1, 1, 1, 1})) == hosts{0, 1, 2});
  CHECK(hosts_of_processes(3, hosts_with({2, 2, 2})) == hosts{0, 0, 1});
  CHECK_THROWS_AS(hosts_of_processes(5, hosts_with({2, 2})), broken_promise);
  CHECK_THROWS_AS(hosts_of_processes(1, {}), broken_promise);
}

TEST_CASE("hosts of a failure domain follow each other; spares do not take part",
          "[runtime][layout]") {
  auto all = hosts_with({1, 1, 1, 1, 1});
  all[0].domain = all[2].domain = all[4].domain = "x";
  all[1].domain = all[3].domain = "y";
  CHECK(hosts_of_processes(4, all) == std::vector<int>{0, 2, 1, 3});
  const auto placed = placement_of(process_map(4, 4), all);
  CHECK(placed.keeper_of == std::vector<int>{2, 3, 0, 1});
}

TEST_CASE("PLACE-2: tensor peers share a host that has a multiple of them, in every rank order",
          "[runtime][layout][invariant]") {
  for (const char* order : {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "dp-tp-pp", "pp-dp-tp"})
    for (const int tensor : {1, 2, 4})
      for (const int pipeline : {1, 2, 3})
        for (const int data : {1, 2, 3}) {
          const mesh all({{axis::tensor, tensor}, {axis::data, data}, {axis::pipeline, pipeline}},
                         order);
          const int world = all.size();
          for (int hosts = 1; hosts <= world; ++hosts) {
            // Shares ranks over hosts as evenly as the division allows; a process for each rank.
            std::vector<int> slots(std::size_t(hosts), world / hosts);
            slots.front() += world % hosts;
            const auto on = hosts_with(slots);
            const auto placed = placement_of(near_ranks(all, world), on);
            std::multiset<int> ranks;
            for (int p = 0; p < world; ++p)
              ranks.insert(placed.ranks.ranks_of(p).begin(), placed.ranks.ranks_of(p).end());
            REQUIRE(ranks.size() == std::size_t(world));
            REQUIRE(std::set<int>(ranks.begin(), ranks.end()).size() == ranks.size());
            bool divides = true;
            for (const int x : slots)
              divides = divides && x % tensor == 0;
            for (const auto& span : spans_of(all, placed, on))
              if (span.along == axis::tensor && divides)
                CHECK(span.crossing == 0);
          }
        }
}

TEST_CASE("ranks of Megatron-LM's orders are in contiguous ranges", "[runtime][layout]") {
  for (const char* order : {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"}) {
    const mesh all({{axis::tensor, 2}, {axis::data, 3}, {axis::pipeline, 2}}, order);
    for (const int processes : {1, 2, 3, 5, 12}) {
      const auto near = near_ranks(all, processes);
      const process_map ranges(all.size(), processes);
      for (int p = 0; p < processes; ++p)
        CHECK(near.ranks_of(p) == ranges.ranks_of(p));
    }
  }
}

TEST_CASE("groups are counted by the hosts that they reach", "[runtime][layout]") {
  const mesh all({{axis::tensor, 2}, {axis::data, 2}, {axis::pipeline, 2}});
  const auto two = hosts_with({4, 4});
  const auto spans = spans_of(all, placement_of(near_ranks(all, 8), two), two);
  REQUIRE(spans.size() == 3);
  CHECK(spans[0].along == axis::tensor);
  CHECK(spans[0].crossing == 0);
  CHECK(spans[1].along == axis::data);
  CHECK(spans[1].crossing == 0);
  CHECK(spans[2].along == axis::pipeline);
  CHECK(spans[2].groups == 4);
  CHECK(spans[2].crossing == 4);
  CHECK(spans[2].most_hosts == 2);
  CHECK(spans[2].first == std::vector<int>{0, 4});
  const auto uneven = hosts_with({3, 5});
  const auto over = spans_of(all, placement_of(near_ranks(all, 8), uneven), uneven);
  CHECK(over[0].crossing == 1);
  CHECK(over[0].first == std::vector<int>{2, 3});
  // Two nodes on one host are one host.
  auto one = uneven;
  one[1].name = one[0].name;
  CHECK(spans_of(all, placement_of(near_ranks(all, 8), one), one)[0].crossing == 0);
}
