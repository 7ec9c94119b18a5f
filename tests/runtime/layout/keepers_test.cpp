// The keepers of the processes' states.

#include "runtime/layout/keepers.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace troupe::runtime;

TEST_CASE("the keeper of a process is another process, on another host if possible",
          "[runtime][layout]") {
  const std::vector<std::vector<process_site>> cases = {{"a", "a"},
                                                        {"a", "b"},
                                                        {"a", "a", "a"},
                                                        {"a", "b", "a", "b"},
                                                        {"a", "a", "b", "b", "c"},
                                                        {"b", "a", "a", "c", "b", "c", "a"}};
  for (const auto& hosts : cases) {
    const auto keepers = keepers_of(hosts);
    REQUIRE(keepers.size() == hosts.size());
    std::set<std::string> all;
    for (const auto& x : hosts)
      all.insert(x.host);
    for (std::size_t p = 0; p < hosts.size(); ++p) {
      CHECK(keepers[p] != int(p));
      if (all.size() > 1)
        CHECK(hosts[std::size_t(keepers[p])].host != hosts[p].host);
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
  const std::vector<process_site> fewer = {"a", "a", "a", "c", "c", "c"};
  const auto after = keepers_again(before, fewer);
  int others = 0;
  for (std::size_t p = 0; p < after.size(); ++p) {
    CHECK(fewer[p].host != fewer[std::size_t(after[p])].host);
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
      std::vector<process_site> first, then;
      for (int i = 0, x = from, y = to; i < 5; ++i, x /= 3, y /= 3) {
        first.emplace_back(names[std::size_t(x % 3)]);
        then.emplace_back(names[std::size_t(y % 3)]);
      }
      const auto beside = [&](const std::vector<int>& keepers) {
        int out = 0;
        for (std::size_t p = 0; p < keepers.size(); ++p)
          out += then[p].host == then[std::size_t(keepers[p])].host ? 1 : 0;
        return out;
      };
      const auto again = keepers_again(keepers_of(first), then);
      REQUIRE(beside(again) <= beside(keepers_of(then)));
      for (std::size_t p = 0; p < again.size(); ++p)
        REQUIRE(again[p] != int(p));
      REQUIRE(std::set<int>(again.begin(), again.end()).size() == again.size());
    }
}

TEST_CASE("PLACE-3: keepers are in other failure domains, and on other hosts of a large one",
          "[runtime][layout][invariant]") {
  // Up to seven processes on hosts of two racks and a third one.
  const std::vector<process_site> hosts
      = {{"a", "x"}, {"b", "x"}, {"c", "y"}, {"d", "y"}, {"e", "z"}};
  for (int n = 2, all = 25; n <= 7; ++n, all *= 5)
    for (int code = 0; code < all; code += n < 6 ? 1 : 7) {
      std::vector<process_site> sites;
      std::map<std::string, int> in_domain, on_host;
      for (int p = 0, rest = code; p < n; ++p, rest /= 5) {
        sites.push_back(hosts[std::size_t(rest % 5)]);
        ++in_domain[sites.back().domain];
        ++on_host[sites.back().host];
      }
      const auto keepers = keepers_of(sites);
      REQUIRE(std::set<int>(keepers.begin(), keepers.end()).size() == sites.size());
      const auto most = [](const auto& counts) {
        return std::max_element(counts.begin(),
                                counts.end(),
                                [](const auto& x, const auto& y) { return x.second < y.second; })
            ->second;
      };
      int beside = 0, on_own = 0;
      for (int p = 0; p < n; ++p) {
        REQUIRE(keepers[std::size_t(p)] != p);
        const auto& keeper = sites[std::size_t(keepers[std::size_t(p)])];
        beside += keeper.domain == sites[std::size_t(p)].domain ? 1 : 0;
        on_own += keeper.host == sites[std::size_t(p)].host ? 1 : 0;
      }
      INFO(n << " processes, code " << code);
      CHECK(beside == std::max(0, 2 * most(in_domain) - n));  // no assignment has fewer
      CHECK(on_own == std::max(0, 2 * most(on_host) - n));
    }
}

TEST_CASE("keepers in racks: two exact pictures", "[runtime][layout]") {
  using sites = std::vector<process_site>;
  using keepers = std::vector<int>;
  const sites racks = {{"a", "x"}, {"b", "x"}, {"c", "y"}, {"d", "y"}};
  CHECK(keepers_of(racks) == keepers{2, 3, 0, 1});
  // Host c is gone, and its process is on a: rack x has three of four processes.
  const sites moved = {{"a", "x"}, {"b", "x"}, {"a", "x"}, {"d", "y"}};
  const auto after = keepers_again(keepers_of(racks), moved);
  for (std::size_t p = 0; p < moved.size(); ++p)
    CHECK(moved[p].host != moved[std::size_t(after[p])].host);
}

// Pairs of processes are compared only where a swap may gain something: 50,000 have 2.5 billion.
TEST_CASE("keepers of 50,000 processes in one failure domain are found without comparing pairs",
          "[runtime][layout]") {
  std::vector<process_site> sites;
  for (int p = 0; p < 50'000; ++p)
    sites.emplace_back("host-" + std::to_string(p), "rack");
  const auto keepers = keepers_of(sites);
  CHECK(keepers_again(keepers, sites) == keepers);
  for (std::size_t p = 0; p < sites.size(); ++p)
    sites[p].domain = p % 3 == 0 ? "small" : "large";
  const auto apart = keepers_of(sites);
  CHECK(keepers_again(apart, sites) == apart);
}
