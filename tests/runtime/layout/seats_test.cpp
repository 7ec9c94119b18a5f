// Ranks as seats of the meshes of dense layers and of experts.

#include "runtime/layout/seats.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

seats seats_of(int world, int tensor, int context, int pipeline, int expert = 1) {
  auto dense = make_mesh(world, tensor, context, pipeline);
  auto experts = fold_experts(dense, expert, tensor);
  return {std::move(dense), std::move(experts)};
}

seats folded(const mesh& dense, int expert, int expert_tensor) {
  return {dense, fold_experts(dense, expert, expert_tensor)};
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
  CHECK(seats_of(8, 2, 1, 2).name(7) == "1.1.1");
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

TEST_CASE("SEATS-2: ranks differ along axes of one mesh", "[layout][invariant]") {
  const auto all = seats_of(16, 2, 1, 2, 2);
  CHECK_THROWS_MATCHES(all.peers(0, {axis::data, axis::expert_data}),
                       broken_promise,
                       MessageMatches(StartsWith("SEATS-2")));
  CHECK_NOTHROW(all.peers(0, {axis::expert, axis::expert_data, axis::pipeline}));
}

TEST_CASE("the axes of a sum keep those that separate replicas", "[layout]") {
  const axis_set sum = {axis::context, axis::data};
  CHECK(seats_of(4, 1, 1, 2).summed(sum) == axis::data);
  CHECK(seats_of(2, 1, 1, 2).summed(sum) == axis::data);
  CHECK(seats_of(4, 1, 2, 2).summed(sum) == sum);
}

TEST_CASE("SEATS-1: a rank leads its stage, and one of equal ranks counts and writes",
          "[layout][invariant]") {
  const auto all = seats_of(16, 2, 2, 2);
  CHECK(all.leads(0));
  CHECK(all.followers(0) == ranks{1, 2, 3});
  CHECK(!all.leads(1));
  CHECK(all.followers(1).empty());
  CHECK(all.followers(4) == ranks{5, 6, 7});
  ranks writers;
  for (int r = 0; r < 16; ++r)
    if (all.counts(r, axis_view::dense))
      writers.push_back(r);
  CHECK(writers == ranks{0, 1, 8, 9});
  // Experts of the second replica are not in the first one.
  const auto experts = seats_of(4, 1, 1, 1, 2);
  ranks of_dense, of_experts;
  for (int r = 0; r < 4; ++r) {
    if (experts.counts(r, axis_view::dense))
      of_dense.push_back(r);
    if (experts.counts(r, axis_view::experts))
      of_experts.push_back(r);
  }
  CHECK(of_dense == ranks{0});
  CHECK(of_experts == ranks{0, 1});
  CHECK(experts.alike(3, axis_view::dense) == ranks{0, 1, 2, 3});
  CHECK(experts.alike(3, axis_view::experts) == ranks{1, 3});
  // Both tensor ranks of both replicas have all experts.
  const auto whole = folded(make_mesh(4, 2, 1, 1), 1, 1);
  CHECK(whole.alike(3, axis_view::dense) == ranks{1, 3});
  CHECK(whole.alike(3, axis_view::experts) == ranks{0, 1, 2, 3});
}

TEST_CASE("VERIFY-4: an expert group covers consecutive replicas, and the next ones are alike",
          "[layout][invariant]") {
  CHECK(seats_of(16, 2, 2, 2).span() == 1);
  CHECK(seats_of(4, 1, 1, 1, 2).span() == 2);
  CHECK(seats_of(8, 1, 1, 2, 4).span() == 4);
  CHECK(seats_of(8, 1, 2, 1, 2).span() == 1);  // each replica has all experts
  CHECK(folded(make_mesh(4, 2, 1, 1), 1, 1).span() == 1);
  CHECK(folded(make_mesh(8, 4, 1, 1), 2, 1).span() == 1);  // two groups in a replica
  CHECK(folded(make_mesh(8, 2, 1, 1), 4, 1).span() == 2);
  CHECK(folded(make_mesh(8, 2, 1, 1), 2, 2).span() == 2);
  CHECK(folded(make_mesh(16, 2, 1, 2), 2, 2).span() == 2);
  CHECK(folded(make_mesh(4, 1, 1, 1), 2, 2).span() == 4);
  // Three ranks of a group and two of a replica overlap.
  CHECK(folded(make_mesh(6, 2, 1, 1), 3, 1).span() == 0);
  // The expert axis is slower than the data axis: a group covers replicas 0 and 2.
  CHECK(folded(make_mesh(4, 1, 1, 1, "tp-cp-dp-ep-pp"), 2, 1).span() == 0);
  for (const auto& [all, span] : {std::pair(folded(make_mesh(16, 2, 1, 2), 2, 2), 2),
                                  std::pair(folded(make_mesh(16, 2, 1, 1), 2, 1), 1)})
    for (int r = 0; r < 16; ++r)
      for (const auto layers : axis_views) {
        const auto at = all.at(r);
        const int next = all.beside(r, axis::data, (at[axis::data] + span) % all.replicas());
        const auto alike = all.alike(r, layers);
        CHECK(std::find(alike.begin(), alike.end(), next) != alike.end());
      }
}

TEST_CASE("experts fold the ranks of dense layers", "[layout]") {
  const auto dense = make_mesh(4, 2, 1, 1);
  // All four ranks of two replicas share the experts.
  const auto four = folded(dense, 4, 1);
  CHECK(four.peers(2, axis::expert) == ranks{0, 1, 2, 3});
  CHECK(four.alike(2, axis_view::experts) == ranks{2});
  // The tensor ranks of a replica share them.
  const auto two = folded(dense, 2, 1);
  CHECK(two.peers(3, axis::expert) == ranks{2, 3});
  CHECK(two.alike(3, axis_view::experts) == ranks{1, 3});
  // Without tensor ranks, pairs share the matrices of an expert.
  const auto pairs = folded(make_mesh(4, 1, 1, 1), 2, 2);
  CHECK(pairs.peers(2, axis::expert_tensor) == ranks{2, 3});
  CHECK(pairs.peers(2, axis::expert) == ranks{0, 2});
  CHECK(pairs.replicas() == 4);
}
