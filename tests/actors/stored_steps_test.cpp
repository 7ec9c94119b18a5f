// The step on local disks that a run can go back to.

#include "actors/supervisor/stored_steps.hpp"

#include "runtime/optim/optimizer_state.hpp"
#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>

using namespace troupe;
using namespace troupe::actors;
using Catch::Matchers::ContainsSubstring;
using runtime::digest;
using runtime::step_id;

namespace {

/// Two processes with one rank each keep each other's states.
const std::vector<int> holders = {1, 0};

std::map<std::string, digest> state_of(std::uint64_t step) {
  return {{"v", {1, step}}, {"w", {2, step}}};
}

messages::stored_states stored(int process, std::uint64_t step, std::map<std::string, digest> own) {
  return {process, step_id(step), {{process, std::move(own)}}};
}

/// Replicas that have the whole state each.
found_on_disks both(std::initializer_list<std::uint64_t> of_first,
                    std::initializer_list<std::uint64_t> of_second) {
  found_on_disks out;
  for (const auto step : of_first)
    out[1].push_back(stored(0, step, state_of(step)));
  for (const auto step : of_second)
    out[0].push_back(stored(1, step, state_of(step)));
  return out;
}

digest committed(std::uint64_t step) {
  return step == 0 || step > 40 ? digest{} : runtime::combine(state_of(step));
}

/// Two replicas of one rank.
opened_job two_replicas(bool sharded = false) {
  auto job = tests::tiny_job(1, 2);
  job.reduction.distributed_optimizer = sharded;
  return {job, runtime::seats_of(job.layout), runtime::pipeline_of(job)};
}

stored_search look(const found_on_disks& found, bool sharded = false) {
  return newest_stored(found, holders, two_replicas(sharded), committed);
}

/// Four replicas, each with two ranks along context. Each quarter of the experts "w" is on two
/// ranks of other replicas.
opened_job with_experts(bool sharded) {
  auto job = tests::tiny_job(1, 4);
  job.reduction.distributed_optimizer = sharded;
  auto pipeline = runtime::pipeline_of(job);
  pipeline.experts = {"w"};
  const auto dense = runtime::make_mesh(8, 1, 2, 1);
  return {job, {dense, runtime::fold_experts(dense, 4, 1)}, std::move(pipeline)};
}

}  // namespace

TEST_CASE("the newest step with the states of all processes is chosen", "[actors]") {
  const auto found = look(both({10, 20, 30}, {10, 20}));
  CHECK(found.newest == stored_everywhere{20, holders});
  REQUIRE(found.passed_over.size() == 1);
  CHECK_THAT(found.passed_over[0],
             ContainsSubstring("iteration 30") && ContainsSubstring("process 1 are missing"));
}

TEST_CASE("without a complete step there is none", "[actors]") {
  CHECK_FALSE(look(both({10}, {20})).newest);
  CHECK_FALSE(look({}).newest);
}

TEST_CASE("an older step is chosen on request", "[actors]") {
  const auto found
      = newest_stored(both({10, 20, 30}, {10, 20}), holders, two_replicas(), committed, 20);
  CHECK(found.newest == stored_everywhere{10, holders});
  CHECK(found.passed_over.empty());
}

TEST_CASE("MEMBER-6: states that differ from the ledger are skipped", "[actors]") {
  auto all = both({10, 20}, {10, 20});
  for (auto& [holder, states] : all)
    states.back().ranks[0].own["w"].low ^= 1;
  const auto found = look(all);
  CHECK(found.newest == stored_everywhere{10, holders});
  CHECK_THAT(found.passed_over.at(0),
             ContainsSubstring("they differ from the committed ones in the ledger"));
}

TEST_CASE("MEMBER-6: parts of a sharded state add up to that in the ledger", "[actors]") {
  const auto part = [](std::uint64_t name, std::uint64_t low) {
    return std::map<std::string, digest>{{name == 1 ? "v" : "w", {name, low}}};
  };
  found_on_disks all;
  all[1] = {stored(0, 10, part(1, 10))};
  all[0] = {stored(1, 10, part(2, 10))};
  CHECK(look(all, true).newest == stored_everywhere{10, holders});
  CHECK_FALSE(look(all, false).newest);
  all[0] = {stored(1, 10, part(2, 11))};
  CHECK_FALSE(look(all, true).newest);
}

TEST_CASE("MEMBER-6: ranks with equal parameters count once, wherever experts are", "[actors]") {
  const bool sharded = GENERATE(false, true);
  CAPTURE(sharded);
  const auto job = with_experts(sharded);
  messages::stored_states all{0, step_id(10)};
  std::map<std::string, digest> sum;
  for (int rank = 0; rank < 8; ++rank) {
    const std::uint64_t share = sharded ? std::uint64_t(rank) : 0;
    all.ranks.push_back(
        {rank, {{"v", {1, 7 + share}}, {"w", {2 + std::uint64_t(rank % 4), share}}}});
    const auto& own = all.ranks.back().own;
    if (sharded || rank == 0)
      sum["v"] += own.at("v");
    if (sharded || rank < 4)
      sum["w"] += own.at("w");
  }
  const auto look_for = [&] {
    return newest_stored(
        {{0, {all}}}, {0}, job, [&](std::uint64_t) { return runtime::combine(sum); });
  };
  CHECK(look_for().newest == stored_everywhere{10, {0}});
  const auto rank = GENERATE(std::size_t{0}, std::size_t{3}, std::size_t{6}, std::size_t{7});
  const std::string parameter = GENERATE(true, false) ? "v" : "w";
  CAPTURE(rank, parameter);
  if (GENERATE(false, true))
    all.ranks[rank].own.erase(parameter);
  else
    all.ranks[rank].own[parameter].low ^= 1;
  const auto found = look_for();
  CHECK_FALSE(found.newest);
  const auto alike = parameter == "v" ? std::size_t{1} : std::size_t{4};
  const auto first = rank % alike;
  CHECK_THAT(found.passed_over.at(0),
             ContainsSubstring(sharded ? std::string("they differ from the committed ones")
                                       : fmt::format("the states of ranks {} and {} differ",
                                                     first,
                                                     rank == first ? first + alike : rank)));
}

TEST_CASE("a step without the state of a rank is incomplete", "[actors]") {
  auto all = both({10, 20}, {10, 20});
  all[1].back().ranks.clear();
  const auto found = look(all);
  CHECK(found.newest == stored_everywhere{10, holders});
  CHECK_THAT(found.passed_over.at(0), ContainsSubstring("rank 0 is missing"));
}

TEST_CASE("steps that this run did not commit are ignored", "[actors]") {
  const auto found = look(both({10, 50}, {10, 50}));
  CHECK(found.newest == stored_everywhere{10, holders});
  CHECK(found.passed_over.empty());
}

TEST_CASE("a state that its keeper lacks is taken from another holder", "[actors]") {
  found_on_disks all;
  all[0] = {stored(0, 10, state_of(10)), stored(1, 10, state_of(10))};
  CHECK(look(all).newest == stored_everywhere{10, {0, 0}});
  all[1] = {stored(0, 10, state_of(10))};
  CHECK(look(all).newest == stored_everywhere{10, {1, 0}});
}
