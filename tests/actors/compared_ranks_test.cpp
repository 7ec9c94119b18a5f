// Ranks that must be alike are compared on the mesh of dense layers and on that of experts.

#include "actors/supervisor/compared_ranks.hpp"

#include "messages/training/step.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace troupe;
using runtime::axis_view;

namespace {

/// Four replicas of one rank. Ranks 0 and 2 have one half of the experts, 1 and 3 the other.
actors::opened_job with_experts() {
  auto job = tests::tiny_job(1, 4);
  auto pipeline = runtime::pipeline_of(job);
  auto dense = runtime::make_mesh(4, 1, 1, 1);
  runtime::seats seats(dense, runtime::fold_experts(dense, 2, 1));
  return {std::move(job), std::move(seats), std::move(pipeline)};
}

messages::voted_gradients vote(int rank, axis_view layers, std::uint64_t bits) {
  return {.rank = rank,
          .layers = layers,
          .square_norms
          = {{layers == axis_view::dense ? "norm" : "experts", runtime::exact_sum(double(bits))}},
          .bits = {bits, 1}};
}

}  // namespace

TEST_CASE("SEATS-1: ranks are compared, and counted once, by the mesh of their layers",
          "[actors][invariant]") {
  const auto job = with_experts();
  std::vector<messages::voted_gradients> votes;
  for (int rank = 0; rank < 4; ++rank) {
    votes.push_back(vote(rank, axis_view::dense, 5));
    votes.push_back(vote(rank, axis_view::experts, rank == 3 ? 9 : 6 + std::uint64_t(rank) % 2));
  }
  actors::compared_ranks<runtime::exact_sum> all(job);
  runtime::exact_sum counted;
  for (const auto& x : votes) {
    all.add(x, x.square_norms);
    if (job.counts(x.rank, x.layers))
      counted += x.square_norms.begin()->second;
  }
  const auto ballots = all.ballots();
  REQUIRE(ballots.size() == 3);
  CHECK(ballots[0].ranks == std::vector<int>{0, 1, 2, 3});
  CHECK(ballots[1].ranks == std::vector<int>{0, 2});
  CHECK(ballots[2].ranks == std::vector<int>{1, 3});
  CHECK(ballots[0].parameters.empty());
  CHECK(ballots[1].parameters.empty());
  CHECK(ballots[2].parameters == std::set<std::string>{"experts"});
  CHECK(counted.value() == 5 + 6 + 7);
  actors::cross_check check;
  const auto said = check.compare(1, actors::checked_bits::gradients, ballots);
  CHECK_FALSE(said.alike);
  REQUIRE(said.found.size() == 1);
  CHECK(said.found[0].ranks == std::vector<int>{1, 3});
  CHECK(job.has_writer(1));  // of experts
  CHECK_FALSE(job.has_writer(2));
}

TEST_CASE("parameters that only one rank reports differ", "[actors]") {
  const auto job = with_experts();
  actors::compared_ranks<runtime::exact_sum> all(job);
  std::vector<messages::voted_gradients> votes;
  for (int rank = 0; rank < 4; ++rank)
    votes.push_back(vote(rank, axis_view::dense, 5));
  votes[0].square_norms["first"];
  votes[2].square_norms["later"];
  for (const auto& x : votes)
    all.add(x, x.square_norms);
  CHECK(all.ballots().front().parameters == std::set<std::string>{"first", "later"});
}

TEST_CASE("STEP-11: a comparison has all ranks with equal parameters", "[actors][invariant]") {
  const auto job = with_experts();
  actors::compared_ranks<runtime::exact_sum> all(job);
  std::vector<messages::voted_gradients> votes;
  for (const int rank : {0, 1, 2})  // 3 has no entry of its experts
    votes.push_back(vote(rank, axis_view::experts, 6));
  for (const auto& x : votes)
    all.add(x, x.square_norms);
  CHECK_BREAKS("STEP-11", all.ballots());
}

TEST_CASE("STEP-11: a rank has one entry of its dense layers, and at most one of its experts",
          "[actors][invariant]") {
  const auto job = with_experts();
  const auto dense = vote(1, axis_view::dense, 5), experts = vote(1, axis_view::experts, 6);
  const auto check = [&](const std::vector<messages::voted_gradients>& entries) {
    actors::require_each_rank(entries, 1, job.seats);
  };
  check({dense});
  check({experts, dense});
  CHECK_BREAKS("STEP-11", check({experts}));
  CHECK_BREAKS("STEP-11", check({dense, experts, experts}));
  CHECK_BREAKS("STEP-11", check({dense, vote(2, axis_view::experts, 6)}));
  CHECK_BREAKS("STEP-11", actors::require_each_rank(std::vector{dense}, 4, job.seats));
}
