// Merged reports are the same in any order and grouping.

#include "actors/host/merged_reports.hpp"

#include "actors/host/merged_times.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace troupe;

namespace {

constexpr int merged_replicas = 4;

/// Four replicas of two tensor ranks.
actors::opened_job opened(bool shares = false) {
  auto job = tests::tiny_job(1, merged_replicas, 2);
  job.reduction.distributed_optimizer = shares;
  auto pipeline = runtime::pipeline_of(job);
  auto seats = runtime::seats_of(job.layout);
  return {std::move(job), std::move(seats), std::move(pipeline)};
}

/// The vote of a replica, with bits of its own in `wrong`.
messages::vote vote_of(int replica, int wrong = -1) {
  messages::vote out{.step = runtime::step_id(1), .replica = replica};
  out.losses = {{1.0 / (replica + 1), 1, 0, 0, 1}, {2.0 / (replica + 1), 1, 0, 0, 4}};
  for (int t = 0; t < 2; ++t)
    out.gradients.push_back({.rank = 2 * replica + t,
                             .square_norms = {{"w", runtime::exact_sum(1e-9 + t)}},
                             .bits = {std::uint64_t(replica == wrong ? 9 : 5), std::uint64_t(t)},
                             .zeros = 1 + t});
  out.executed = {{.rank = 0, .actions = {{{}, 1.0, replica == 2 ? 5.0 : 3.0}}}};
  out.times = {{.stage_index = 0, .computing = double(replica)}};
  if (replica % 2 == 1)
    out.nonfinite = {"w", std::to_string(replica) + ".0", 0, 3, 2 * replica};
  return out;
}

/// Merges pairs, and then their results, as branches 0 and 1 would.
messages::vote in_pairs(const std::array<int, merged_replicas>& order,
                        const actors::opened_job& job,
                        int wrong = -1) {
  actors::merged_reports<messages::vote> all;
  for (const int branch : {0, 1}) {
    actors::merged_reports<messages::vote> pair;
    for (const int i : {0, 1})
      pair.add(vote_of(order[std::size_t(2 * branch + i)], wrong), 2, job, "once");
    auto x = pair.all();
    x.process = branch;
    CHECK(all.add(std::move(x), 2, job, "once") == (branch == 1));
  }
  return all.all();
}

}  // namespace

TEST_CASE("merged votes do not depend on order and grouping", "[actors]") {
  const int wrong = GENERATE(-1, 0, 3);
  const auto job = opened();
  actors::merged_reports<messages::vote> at_once;
  for (int r = 0; r < merged_replicas; ++r)
    at_once.add(vote_of(r, wrong), merged_replicas, job, "once");
  const auto& all = at_once.all();
  CHECK(all.gradients.size() == (wrong < 0 ? 2 : 4));
  CHECK(all.gradients[0].rank == 0);
  CHECK(all.replica == 2);  // the slowest
  CHECK(all.nonfinite.where == "1.0");
  REQUIRE(all.losses.size() == 2 * merged_replicas);
  CHECK(std::ranges::is_sorted(all.losses, {}, &runtime::loss_part::order));
  std::array<int, merged_replicas> order = {0, 1, 2, 3};
  do {
    CHECK(in_pairs(order, job, wrong) == all);
  } while (std::ranges::next_permutation(order).found);
}

TEST_CASE("times of many replicas are those of the slowest, in any grouping, and of bounded size",
          "[actors]") {
  constexpr int replicas = 60;
  const auto vote_in = [](int replica) {
    messages::vote out{.replica = replica};
    for (int stage = 0; stage < 2; ++stage)
      out.times.push_back({.replica = replica,
                           .stage_index = stage,
                           .computing = 0.2 + 1e-3 * (replica * 7 % replicas),
                           .redeeming = 1e-3 * (replica * 11 % replicas),
                           .awaiting_batches = replica % 3 == 0 ? 0.5 : 0});
    return out;
  };
  // Groups of `each`, merged from either end; then the groups from the other end.
  const auto merged = [&](int each, bool backwards) {
    std::vector<messages::vote> groups;
    for (int first = 0; first < replicas; first += each) {
      auto& group = groups.emplace_back();
      for (int i = 0; i < each; ++i) {
        auto x = vote_in(backwards ? first + each - 1 - i : first + i);
        actors::merge_times(group, x);
      }
    }
    messages::vote out;
    for (std::size_t i = 0; i < groups.size(); ++i)
      actors::merge_times(out, groups[backwards ? i : groups.size() - 1 - i]);
    return out;
  };
  const auto all = merged(replicas, false);
  for (const int each : {1, 2, 10, 30})
    for (const bool backwards : {false, true}) {
      CAPTURE(each, backwards);
      CHECK(merged(each, backwards) == all);
    }
  CHECK(all.times.size() <= 2 * actors::all_listed);
  REQUIRE(all.other_times.size() == 2);
  for (const auto& x : all.other_times) {
    const auto listed
        = std::ranges::count(all.times, x.stage_index, &messages::stage_times::stage_index);
    for (const auto* const bins : {&x.computing, &x.redeeming, &x.awaiting_batches}) {
      std::ptrdiff_t workers = 0;
      for (const auto& [bin, number] : *bins)
        workers += number;
      CHECK(workers + listed == replicas);
    }
  }
  std::set<int> slowest;
  for (const auto& x : all.times)
    if (x.stage_index == 1 && x.computing > 0.2 + 1e-3 * (replicas - 9))
      slowest.insert(x.replica);
  CHECK(slowest.size() == actors::slowest_listed);
  auto few = vote_in(0);
  for (int r = 1; r < int(actors::all_listed); ++r) {
    auto x = vote_in(r);
    actors::merge_times(few, x);
  }
  CHECK(few.times.size() == 2 * actors::all_listed);
  CHECK(few.other_times.empty());
}

TEST_CASE("a bin holds times within 3 percent", "[actors]") {
  for (double seconds = 1e-6; seconds < 1e4; seconds *= 1.003) {
    CAPTURE(seconds);
    const auto middle = actors::middle_of_bin(actors::bin_of(seconds));
    CHECK(std::abs(middle - seconds) < 0.03 / 2 * 1.1 * seconds);
    CHECK(actors::bin_of(middle) == actors::bin_of(seconds));
  }
  CHECK(actors::middle_of_bin(actors::bin_of(1e-7)) == 0);
}

TEST_CASE("a norm of any rank changes the digest of a merged vote", "[actors]") {
  const auto job = opened();
  const auto of = [&](double norm) {
    messages::vote out;
    auto x = vote_of(1);
    x.gradients[1].square_norms["w"] = runtime::exact_sum(norm);
    merge(out, std::move(x), job);
    merge(out, vote_of(0), job);
    return out.of_ranks;
  };
  CHECK(of(2) == of(2));
  CHECK_FALSE(of(2) == of(3));
}

TEST_CASE("shares of alike ranks add up", "[actors]") {
  const auto job = opened(true);
  messages::applied all;
  for (int r = merged_replicas - 1; r >= 0; --r) {
    messages::applied x{.replica = r};
    for (int t = 0; t < 2; ++t)
      x.state.push_back({.rank = 2 * r + t,
                         .own = {{"w", {0, std::uint64_t(10 * r + t)}}},
                         .bits = {std::uint64_t(r), 0},
                         .square_norm = runtime::exact_sum(1)});
    merge(all, std::move(x), job);
  }
  actors::require_all_ranks(all.state, job);
  REQUIRE(all.state.size() == 2);
  CHECK(all.state[1].rank == 1);
  CHECK(all.state[1].own.at("w") == runtime::digest{0, 64});
  CHECK(all.state[1].square_norm.value() == 4);
  messages::vote votes;
  for (int r = 0; r < merged_replicas; ++r)
    merge(votes, vote_of(r, 2), job);
  REQUIRE(votes.gradients.size() == 4);  // replica 2 used other values
  CHECK(votes.gradients[0].zeros == 3);
  CHECK(votes.gradients[1].alike == messages::index_ranges{{2, 3}});
}

TEST_CASE("ranges of ranks join where they meet, and break a promise where they overlap",
          "[actors]") {
  messages::index_ranges all = {{2, 3}};
  actors::join(all, {{0, 1}, {3, 5}}, "TEST-1: once");
  CHECK(all == messages::index_ranges{{0, 1}, {2, 5}});
  actors::join(all, {{1, 2}}, "TEST-1: once");
  CHECK(all == messages::index_ranges{{0, 5}});
  CHECK_BREAKS("TEST-1", actors::join(all, {{4, 6}}, "TEST-1: once"));
  CHECK_BREAKS("TEST-1", actors::join(all, {{6, 6}}, "TEST-1: once"));
}
