#include "runtime/layout/mesh.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using groups = std::vector<std::vector<int>>;

TEST_CASE("sixteen ranks, TP 2 and PP 4, are grouped as Megatron groups them", "[layout]") {
  const auto m = make_mesh(16, 2, 1, 4);
  CHECK(m.extent(axis::data) == 2);
  CHECK(m.groups(axis::tensor)
        == groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}});
  CHECK(m.groups(axis::data)
        == groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}});
  CHECK(m.groups(axis::pipeline)
        == groups{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}});
}

TEST_CASE("rank and coordinates are inverse under any order", "[layout]") {
  for (const auto* order : {"tp-cp-ep-dp-pp", "tp-pp-dp", "pp-dp-tp-cp"}) {
    const mesh m({2, 1, 1, 3, 4}, order);
    REQUIRE(m.size() == 24);
    for (int r = 0; r < m.size(); ++r)
      CHECK(m.rank(m.at(r)) == r);
  }
}

TEST_CASE("meshes that cannot be are refused with the rule they break", "[layout]") {
  CHECK_THROWS_WITH(make_mesh(6, 1, 1, 4), ContainsSubstring("would do: 8"));
  CHECK_THROWS_WITH(mesh({2, 1, 1, 1, 1}, "pp-dp"), ContainsSubstring("leaves out tp"));
  CHECK_THROWS_WITH(mesh({1, 1, 1, 1, 1}, "tp-tp"), ContainsSubstring("stands twice"));
  CHECK_THROWS_WITH(mesh({1, 1, 1, 1, 1}, "tp-xp"), ContainsSubstring("not an axis"));
  CHECK_THROWS_AS(mesh({0, 1, 1, 1, 1}), input_error);
}
