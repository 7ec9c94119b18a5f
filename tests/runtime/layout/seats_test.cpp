// Ranks as seats of the meshes of dense layers and of experts.

#include "runtime/layout/seats.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace troupe::runtime;

namespace {

seats seats_of(int world, int tensor, int context, int pipeline, int expert = 1) {
  auto dense = make_mesh(world, tensor, context, pipeline);
  auto experts = fold_experts(dense, expert, tensor);
  return {std::move(dense), std::move(experts)};
}

using ranks = std::vector<int>;

}  // namespace

TEST_CASE("a seat has the positions of its rank on both meshes", "[layout]") {
  const auto all = seats_of(16, 2, 1, 2, 2);
  CHECK(all.replicas() == 4);
  CHECK(all.extent(axis::expert) == 2);
  CHECK(all.extent(axis::expert_data) == 2);
  for (int r = 0; r < 16; ++r) {
    const auto at = all.at(r);
    CHECK(all.rank(at) == r);
    CHECK(at[axis::data] == at[axis::expert] + 2 * at[axis::expert_data]);
    CHECK(at[axis::tensor] == at[axis::expert_tensor]);
  }
}

TEST_CASE("stages of a replica are numbered by pipeline rank, then by their part", "[layout]") {
  const int context = GENERATE(1, 2);
  CAPTURE(context);
  const auto all = seats_of(16, 2, context, 2);
  CHECK(all.stages() == 4 * context);
  std::set<int> seen;
  for (int r = 0; r < all.replicas(); ++r) {
    const auto stages = all.replica(r);
    REQUIRE(int(stages.size()) == all.stages());
    for (int s = 0; s < all.stages(); ++s) {
      const int rank = stages[std::size_t(s)];
      seen.insert(rank);
      CHECK(all.stage_index(rank) == s);
      CHECK(all.rank_of_stage(r, s) == rank);
      CHECK(all.at(rank)[axis::data] == r);
      CHECK(all.at(rank)[axis::pipeline] == s / (2 * context));
    }
  }
  CHECK(seen.size() == 16);
}

TEST_CASE("names show the axes with several ranks", "[layout]") {
  CHECK(seats_of(4, 1, 1, 2).name(3) == "1.1");
  CHECK(seats_of(4, 1, 1, 2).place(3) == "1.1.0");
  CHECK(seats_of(8, 2, 1, 2).name(7) == "1.1.1");
  CHECK(seats_of(8, 2, 1, 2).place(7) == "1.1.1");
  CHECK(seats_of(16, 2, 2, 2).name(15) == "1.1.1.1");
  const auto all = seats_of(8, 2, 1, 2);
  CHECK(all.name_of_group(7, axis::tensor) == "tensor of stage 1.1");
  CHECK(all.name_of_group(7, axis::data) == "data of pipeline rank 1.1");
  CHECK(seats_of(4, 1, 1, 2).name_of_group(3, axis::data) == "data of pipeline rank 1.0");
}

TEST_CASE("each group of a set of axes has its own name", "[layout]") {
  const int context = GENERATE(1, 2);
  CAPTURE(context);
  const auto all = seats_of(32, 2, context, 2, 2);
  for (const axis_set along : {axis_set(axis::tensor),
                               axis_set(axis::context),
                               axis_set(axis::data),
                               axis_set{axis::context, axis::data},
                               axis_set(axis::expert),
                               axis_set(axis::expert_data)}) {
    std::map<std::string, ranks> members;
    for (int r = 0; r < 32; ++r) {
      const auto peers = all.peers(r, along);
      CHECK(members.emplace(all.name_of_group(r, along), peers).first->second == peers);
    }
  }
}

TEST_CASE("the axes of a sum keep those that separate replicas", "[layout]") {
  const axis_set sum = {axis::context, axis::data};
  CHECK(seats_of(4, 1, 1, 2).summed(sum) == axis::data);
  CHECK(seats_of(2, 1, 1, 2).summed(sum) == axis::data);
  CHECK(seats_of(4, 1, 2, 2).summed(sum) == sum);
}

TEST_CASE("the first rank of a stage leads, and the first of equal ranks writes", "[layout]") {
  const auto all = seats_of(16, 2, 2, 2);
  CHECK(all.leads(0));
  CHECK(all.followers(0) == ranks{1, 2, 3});
  CHECK(!all.leads(1));
  CHECK(all.followers(1).empty());
  CHECK(all.followers(4) == ranks{5, 6, 7});
  ranks writers;
  for (int r = 0; r < 16; ++r)
    if (all.writes(r))
      writers.push_back(r);
  CHECK(writers == ranks{0, 1, 8, 9});
  // Experts of the second replica are not in the first one.
  const auto experts = seats_of(4, 1, 1, 1, 2);
  CHECK((experts.writes(0) && experts.writes(1) && !experts.writes(2) && !experts.writes(3)));
}
