// Comparison of passes that two replicas computed, over several runs of a step.

#include "actors/supervisor/pass_ballots.hpp"

#include "runtime/trainer/verification.hpp"
#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <vector>

using namespace troupe;
using actors::bits_verdict;
using messages::checked_pass;

namespace {

/// A pass of replica 0, recomputed by replica 1, with both digests of its weight gradients.
checked_pass pass(std::uint32_t microbatch,
                  std::uint64_t first,
                  std::uint64_t again,
                  bool follows_other = false) {
  return {.replica = 0,
          .by = 1,
          .microbatch = runtime::microbatch_id(microbatch),
          .weight_gradient = {first, 1},
          .weight_gradient_again = {again, 1},
          .follows_other = follows_other};
}

/// Eight replicas of four tensor ranks.
const runtime::seats seats(runtime::make_mesh(32, 4, 1, 1),
                           runtime::fold_experts(runtime::make_mesh(32, 4, 1, 1), 1, 4));

struct judged {
  actors::cross_check by;

  actors::cross_check::answer hears(const std::vector<checked_pass>& passes) {
    std::vector<actors::ballot> all;
    actors::add_ballots(passes, seats, all);
    return by.compare(4, actors::checked_bits::passes, all);
  }
};

}  // namespace

TEST_CASE("VERIFY-2: a pass after a wrong one decides no case of an earlier run", "[actors]") {
  // Ranks 0 and 4 compute. Wrong bits at micro-batch 3, then already at micro-batch 1, then
  // nowhere.
  const int guilty = GENERATE(0, 4);
  const auto wrong = [guilty](std::uint32_t microbatch, std::uint64_t with, bool follows = false) {
    const std::uint64_t right = microbatch;
    return guilty == 0 ? pass(microbatch, with, right, follows)
                       : pass(microbatch, right, with, follows);
  };
  judged it;
  auto said = it.hears({pass(1, 1, 1), pass(2, 2, 2), wrong(3, 30)});
  REQUIRE(said.found.size() == 1);
  CHECK(said.found[0].verdict == bits_verdict::undecided);
  said = it.hears({wrong(1, 10), wrong(2, 20, true), wrong(3, 31, true)});
  REQUIRE(said.found.size() == 1);
  CHECK(said.found[0].verdict == bits_verdict::undecided);
  CHECK_FALSE(said.alike);
  said = it.hears({pass(1, 1, 1), pass(2, 2, 2), pass(3, 3, 3)});
  CHECK(said.alike);
  REQUIRE(said.found.size() == 2);
  for (const auto& x : said.found) {
    CHECK(x.verdict == bits_verdict::transient);
    CHECK(x.ranks == std::vector<int>{guilty});
  }
}

TEST_CASE("STEP-11: a pass that is computed again names ranks of the job", "[actors]") {
  std::vector<actors::ballot> all;
  auto x = pass(1, 1, 1);
  SECTION("no such stage") {
    x.stage_index = GENERATE(-1, 4);
  }
  SECTION("no such replica") {
    x.replica = GENERATE(-1, 8);
  }
  SECTION("no such replica computed it again") {
    x.by = GENERATE(-1, 8);
  }
  CHECK_BREAKS("STEP-11", actors::add_ballots({x}, seats, all));
}

TEST_CASE("VERIFY-2: a pass is computed again by a rank with equal parameters", "[actors]") {
  const auto dense = runtime::make_mesh(4, 1, 1, 1);
  const runtime::seats halves(dense, runtime::fold_experts(dense, 2, 1));  // of the experts
  std::vector<actors::ballot> all;
  auto x = pass(1, 1, 1);
  CHECK_BREAKS("VERIFY-2", actors::add_ballots({x}, halves, all));
  x.by = runtime::verifier_of(0, halves.replicas(), halves.span());
  actors::add_ballots({x}, halves, all);
  CHECK(all.front().ranks == std::vector<int>{0, 2});
}

TEST_CASE("the name of a pass includes the copy of the model if there are several", "[actors]") {
  std::vector<actors::ballot> all;
  actors::add_ballots({{.stage_index = 2,
                        .replica = 5,
                        .by = 6,
                        .chunk = runtime::chunk_id(7),
                        .copy = runtime::copy_id(1),
                        .microbatch = runtime::microbatch_id(9)}},
                      seats,
                      all);
  CHECK(all[0].ranks == std::vector<int>{22, 26});
  REQUIRE(all.size() == 3);
  CHECK(actors::name_of_pass(all[0].what, 2)
        == "output of micro-batch 9 of replica 5 by chunk 7 of copy 1");
  CHECK(actors::name_of_pass(all[1].what, 2)
        == "input gradient of micro-batch 9 of replica 5 by chunk 7 of copy 1");
  all.clear();
  actors::add_ballots({{.replica = 5, .chunk = runtime::chunk_id(7)}}, seats, all);
  CHECK(actors::name_of_pass(all[2].what, 1)
        == "weight gradients of micro-batch 0 of replica 5 by chunk 7");
}
