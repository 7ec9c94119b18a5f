#include "runtime/layout/mesh.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using groups = std::vector<std::vector<int>>;

namespace {

/// The axis with this name in a rank order, for the mesh's view (dense or expert).
axis axis_of(const mesh& m, const std::string& name) {
  const bool experts
      = m.extent(axis::expert_tensor) * m.extent(axis::expert) * m.extent(axis::expert_data) > 1;
  for (const auto& row : axis_table())
    if (row.order_name == name && (name == "pp" || (row.experts != axis_use::none) == experts))
      return row.id;
  throw error("no axis is called " + name);
}

/// Groups along the axes of a name such as "tp-pp", computed from coordinates for comparison.
groups by_coordinates(const mesh& m, const std::string& names) {
  std::map<coordinates, std::vector<int>> out;
  for (int r = 0; r < m.size(); ++r) {
    auto where = m.at(r);
    for (std::size_t at = 0; at < names.size(); at += 3)
      where[axis_of(m, names.substr(at, 2))] = 0;
    out[where].push_back(r);
  }
  groups all;
  for (auto& [where, ranks] : out)
    all.push_back(ranks);
  std::sort(all.begin(), all.end());
  return all;
}

groups grouped(const mesh& m, const std::string& names) {
  switch (names.size()) {
    case 2:
      return m.groups(axis_of(m, names));
    case 5:
      return m.groups({axis_of(m, names.substr(0, 2)), axis_of(m, names.substr(3, 2))});
    default:
      return m.groups({axis_of(m, names.substr(0, 2)),
                       axis_of(m, names.substr(3, 2)),
                       axis_of(m, names.substr(6, 2))});
  }
}

}  // namespace

TEST_CASE("sixteen ranks with TP 2 and PP 4 have Megatron's groups", "[layout]") {
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
    const mesh m({{axis::tensor, 2}, {axis::data, 3}, {axis::pipeline, 4}}, order);
    REQUIRE(m.size() == 24);
    for (int r = 0; r < m.size(); ++r)
      CHECK(m.rank(m.at(r)) == r);
  }
}

TEST_CASE("invalid meshes are refused with the rule that they break", "[layout]") {
  CHECK_THROWS_WITH(make_mesh(6, 1, 1, 4), ContainsSubstring("nearest valid: 8"));
  CHECK_THROWS_WITH(mesh({{axis::tensor, 2}}, "pp-dp"), ContainsSubstring("leaves out tp"));
  CHECK_THROWS_WITH(mesh({{axis::tensor, 1}}, "tp-tp"), ContainsSubstring("appears twice"));
  CHECK_THROWS_WITH(mesh({{axis::tensor, 1}}, "tp-xp"), ContainsSubstring("not an axis"));
  CHECK_THROWS_AS(mesh({{axis::tensor, 0}}), input_error);
}

TEST_CASE("groups along several axes, and those of experts, equal megatron-core's",
          "[layout][golden]") {
  const auto golden = nlohmann::json::parse(
      read_text(troupe::tests::source_dir() + "/tests/golden/layout/golden.json"));
  REQUIRE(golden["layouts"].size() >= 10);
  for (const auto& c : golden["layouts"]) {
    const auto order = c["order"].get<std::string>();
    INFO(c["world"] << " ranks in the order " << order);
    const auto dense = make_mesh(c["world"], c["tp"], c["cp"], c["pp"], order);
    const auto experts = fold_experts(dense, c["ep"], c["etp"]);
    for (const auto& [name, expected] : c["groups"].items()) {
      if (name.ends_with("embedding"))
        continue;
      INFO(name);
      const bool folded = name.starts_with("expert ");
      const auto along = folded ? name.substr(7) : name;
      CHECK(grouped(folded ? experts : dense, along) == expected.get<groups>());
      CHECK(by_coordinates(folded ? experts : dense, along) == expected.get<groups>());
    }
  }
}

TEST_CASE("experts that would span pipelines are refused", "[layout]") {
  CHECK_THROWS_WITH(fold_experts(make_mesh(16, 2, 1, 2, "tp-cp-ep-pp-dp"), 2, 2),
                    ContainsSubstring("put pp last"));
  CHECK_NOTHROW(fold_experts(make_mesh(16, 2, 1, 2, "tp-cp-ep-dp-pp"), 2, 2));
  CHECK_THROWS_WITH(fold_experts(make_mesh(16, 2, 1, 2), 3, 1),
                    ContainsSubstring("nearest valid: 18"));
}
