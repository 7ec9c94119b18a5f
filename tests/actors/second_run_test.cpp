// Second runs of steps that are not finite: votes in, verdicts out.

#include "actors/supervisor/second_run.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

using namespace troupe;
using actors::bits_verdict;
using actors::run_of_step;
using actors::second_runs;

namespace {

/// A step of two replicas: their losses and the replicated gradient of w in their votes.
run_of_step with_bits(std::vector<double> losses, double square, const std::string& fault = {}) {
  auto out = actors::run_of({.losses = {{losses[0], 1, 0}, {losses[1], 1, 1}},
                             .of_ranks = {std::bit_cast<std::uint64_t>(square), 1}},
                            1,
                            2);
  out.fault = fault;
  out.where = "0.1";
  return out;
}

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double overflown = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("VERIFY-3: the replica with NaN in a loss of any stage is found", "[actors]") {
  const auto of = [](double middle) {
    messages::vote all;
    for (int r = 0; r < 2; ++r)
      all.losses.insert(all.losses.end(), {{r == 1 ? middle : 3, 1, r, 1, 2}, {2, 1, r, 0, 5}});
    auto out = actors::run_of(all, 1, 2);
    out.fault = std::isnan(middle) ? "it is nan" : "";
    return out;
  };
  second_runs x;
  CHECK(x.compare(4, of(not_a_number)).again);
  const double second = GENERATE(not_a_number, 3.0);
  const auto said = x.compare(4, of(second));
  REQUIRE(said.found);
  CHECK(said.found->verdict
        == (std::isnan(second) ? bits_verdict::reproducible : bits_verdict::transient));
  CHECK(said.found->replicas == std::vector<int>{1});
}

TEST_CASE("a finite step does not run again", "[actors]") {
  second_runs x;
  const auto said = x.compare(4, with_bits({2, 2}, 9));
  CHECK_FALSE(said.again);
  CHECK_FALSE(said.found);
  CHECK_FALSE(x.awaits(4));
}

TEST_CASE("VERIFY-3: a step that is not finite runs once more before the verdict", "[actors]") {
  second_runs x;
  const auto first = with_bits({2, not_a_number}, 9, "it is nan");
  CHECK(x.compare(4, first).again);
  CHECK(x.awaits(4));
  run_of_step second;
  bits_verdict verdict = {};
  SECTION("with the same bits") {
    second = first;
    verdict = bits_verdict::reproducible;
  }
  SECTION("with finite values") {
    second = with_bits({2, 2}, 9);
    verdict = bits_verdict::transient;
  }
  SECTION("with other bits, and not finite") {
    second = with_bits({2, overflown}, 9, "it is infinite");
    verdict = bits_verdict::persistent;
  }
  const auto said = x.compare(4, second);
  CHECK_FALSE(said.again);
  REQUIRE(said.found);
  CHECK(said.found->verdict == verdict);
  CHECK(said.found->fault == "it is nan");
  CHECK(said.found->replicas == std::vector<int>{1});
  CHECK_FALSE(x.awaits(4));
}

TEST_CASE("VERIFY-3: a later rerun of a judged step with the same bits has no new verdict",
          "[actors]") {
  second_runs x;
  const auto bad = with_bits({2, not_a_number}, 9, "it is nan");
  CHECK(x.compare(4, bad).again);
  CHECK(x.compare(4, bad).found);
  for (int n = 0; n < 2; ++n) {
    const auto said = x.compare(4, bad);
    CHECK_FALSE(said.again);
    CHECK_FALSE(said.found);
  }
  CHECK(x.compare(4, with_bits({2, overflown}, 9, "it is infinite")).again);
  CHECK(x.compare(4, bad).found->verdict == bits_verdict::persistent);
  CHECK_FALSE(x.compare(4, bad).again);
  x.commit(4);
  CHECK(x.compare(4, bad).again);
}

TEST_CASE("transient faults of a replica are counted, also those of different steps", "[actors]") {
  second_runs x;
  const auto transients = [&](std::uint64_t step, std::vector<double> losses) {
    CHECK(x.compare(step, with_bits(std::move(losses), 9, "it is nan")).again);
    return x.compare(step, with_bits({2, 2}, 9)).found->transients;
  };
  CHECK(transients(4, {2, not_a_number}) == 1);
  CHECK(transients(5, {not_a_number, 2}) == 1);
  CHECK(transients(9, {2, overflown}) == 2);
  CHECK(x.compare(10, with_bits({2, 2}, overflown, "w is not finite")).again);
  CHECK(x.compare(10, with_bits({2, 2}, 9)).found->transients == 0);  // of no single replica
}

TEST_CASE("a gradient that is not finite names the stage, but no replica", "[actors]") {
  const bool same = GENERATE(true, false);
  second_runs x;
  CHECK(x.compare(4, with_bits({2, 3}, overflown, "w is not finite")).again);
  const auto said
      = x.compare(4, same ? with_bits({2, 3}, overflown, "w is not finite") : with_bits({2, 3}, 9));
  REQUIRE(said.found);
  CHECK(said.found->verdict == (same ? bits_verdict::reproducible : bits_verdict::transient));
  CHECK(said.found->replicas.empty());
  CHECK(said.found->where == "0.1");
}

TEST_CASE("earlier steps that run again are judged separately", "[actors]") {
  second_runs x;
  const auto bad = with_bits({2, not_a_number}, 9, "it is nan");
  CHECK(x.compare(4, bad).again);
  CHECK_FALSE(x.compare(3, with_bits({1, 1}, 9)).found);
  CHECK(x.compare(2, bad).again);
  CHECK(x.compare(2, with_bits({1, 1}, 9)).found->verdict == bits_verdict::transient);
  CHECK(x.compare(4, bad).found->verdict == bits_verdict::reproducible);
}
