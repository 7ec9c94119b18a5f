// Ranks that must be alike are compared on the mesh of dense layers and on that of experts.

#include "actors/supervisor/compared_ranks.hpp"

#include "actors/host/merged_reports.hpp"
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

std::vector<messages::voted_gradients> merged(const std::vector<messages::voted_gradients>& votes,
                                              const actors::opened_job& job) {
  messages::vote all;
  for (const auto& x : votes)
    actors::merge(all, {.gradients = {x}}, job);
  return all.gradients;
}

std::vector<actors::ballot> ballots_of(const std::vector<messages::voted_gradients>& all,
                                       const actors::opened_job& job,
                                       bool with_alike) {
  return actors::ballots_of(all, &messages::voted_gradients::square_norms, job, with_alike);
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
  const auto all = merged(votes, job);
  actors::require_all_ranks(all, job);
  CHECK(all.size() == 4);  // dense layers, two halves of experts, and the rank that differs
  runtime::exact_sum counted;
  for (const auto& x : all)
    if (job.counts(x.rank, x.layers))
      counted += x.square_norms.begin()->second;
  CHECK(counted.value() == 5 + 6 + 7);
  const auto ballots = ballots_of(all, job, true);
  REQUIRE(ballots.size() == 3);
  CHECK(ballots[0].ranks == std::vector<int>{0, 1, 2, 3});
  CHECK(ballots[1].ranks == std::vector<int>{0, 2});
  CHECK(ballots[2].ranks == std::vector<int>{1, 3});
  CHECK(ballots[0].parameters.empty());
  CHECK(ballots[1].parameters.empty());
  CHECK(ballots[2].parameters == std::set<std::string>{"experts"});
  const auto differing = ballots_of(all, job, false);
  REQUIRE(differing.size() == 1);
  CHECK(differing[0].digests == ballots[2].digests);
  actors::cross_check check;
  const auto said = check.compare(1, actors::checked_bits::gradients, ballots);
  CHECK_FALSE(said.alike);
  CHECK(check.has_open_cases());
  REQUIRE(said.found.size() == 1);
  CHECK(said.found[0].ranks == std::vector<int>{1, 3});
  CHECK(job.has_writer(1));  // of experts
  CHECK_FALSE(job.has_writer(2));
}

TEST_CASE("parameters that only one rank reports differ", "[actors]") {
  const auto job = with_experts();
  std::vector<messages::voted_gradients> votes;
  for (int rank = 0; rank < 4; ++rank)
    votes.push_back(vote(rank, axis_view::dense, 5));
  votes[0].square_norms["first"];
  votes[2].square_norms["later"];
  CHECK(ballots_of(merged(votes, job), job, true).front().parameters
        == std::set<std::string>{"first", "later"});
}

TEST_CASE("STEP-11: merged votes have all ranks' dense layers, and all alike ranks of experts",
          "[actors][invariant]") {
  const auto job = with_experts();
  std::vector<messages::voted_gradients> votes;
  for (int rank = 0; rank < 4; ++rank)
    votes.push_back(vote(rank, axis_view::dense, 5));
  const auto check = [&] { actors::require_all_ranks(merged(votes, job), job); };
  check();
  votes.push_back(vote(1, axis_view::experts, 6));
  CHECK_BREAKS("STEP-11", check());  // 3 has no entry of its experts
  votes.push_back(vote(3, axis_view::experts, 7));
  check();
  votes.push_back(vote(3, axis_view::experts, 7));
  CHECK_BREAKS("STEP-11", check());
  votes.back() = vote(4, axis_view::dense, 5);
  CHECK_BREAKS("STEP-11", check());
  votes.pop_back();
  votes.erase(votes.begin());
  CHECK_BREAKS("STEP-11", check());
}
