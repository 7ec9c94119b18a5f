#include "runtime/schedule/meetings.hpp"

#include "runtime/schedule/check.hpp"
#include "runtime/schedule/csv.hpp"
#include "runtime/schedule/generators.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <map>
#include <string>
#include <utility>

using namespace troupe::runtime;

namespace {

/// Several replicas of a plan in one, with ranks of their own.
plan joined(const plan& of, int replicas) {
  auto out = of;
  out.copies *= replicas;
  out.microbatches *= replicas;
  for (int r = 1; r < replicas; ++r) {
    for (const int rank : of.placement)
      out.placement.push_back(rank + r * int(of.ranks.size()));
    for (auto row : of.ranks) {
      for (auto& a : row)
        a.copy = copy_id(value(a.copy) + std::uint32_t(r * of.copies));
      out.ranks.push_back(std::move(row));
    }
  }
  return out;
}

/// Every action meets the same one of the other replicas.
meeting_of actions_of_replicas(const plan& of) {
  std::map<std::string, std::size_t> all;
  for (const auto& row : of.ranks)
    for (const auto& a : row)
      all.emplace(to_string(a, of.copies), all.size());
  return [all, copies = of.copies](action a) -> std::optional<std::size_t> {
    a.copy = copy_id(value(a.copy) % std::uint32_t(copies));
    return all.at(to_string(a, copies));
  };
}

std::string missed(const plan& x, const meeting_of& meeting, int credits = 0) {
  return missed_meeting(x, credits_of(x, {}, credits), meeting);
}

}  // namespace

TEST_CASE("PLAN-9: replicas that carry out one plan meet in each of its actions",
          "[schedule][invariant]") {
  const std::string name = GENERATE("1f1b", "zb-v", "dualpipe", "dualpipev");
  CAPTURE(name);
  const auto one = generate(name, {.ranks = 4, .microbatches = 12});
  auto three = joined(one, 3);
  CHECK(validate(three).empty());
  CHECK(missed(three, actions_of_replicas(one)).empty());
  // The forward passes of two micro-batches change places in one replica.
  auto& row = three.ranks[5];
  for (std::size_t i = 0; i + 1 < row.size(); ++i)
    if (row[i].kind == action_kind::forward && row[i + 1].kind == action_kind::forward) {
      std::swap(row[i].microbatch, row[i + 1].microbatch);
      std::swap(row[i].chunk, row[i + 1].chunk);
      std::swap(row[i].copy, row[i + 1].copy);
      break;
    }
  CHECK(missed(three, actions_of_replicas(one)).starts_with("PLAN-9: rank "));
}

TEST_CASE("PLAN-9: the copies of DualPipe meet in their forward passes", "[schedule][invariant]") {
  const int ranks = GENERATE(2, 4, 8), more = GENERATE(0, 2, 6);
  CAPTURE(ranks, more);
  const auto x = generate("dualpipe", {.ranks = ranks, .microbatches = 2 * ranks + more});
  CHECK(missed(x, forwards_of_copies(x)).empty());
  for (int credits = 1; credits <= ranks; ++credits)
    if (check_handoffs(x, credits_of(x, {}, credits)).empty())
      CHECK(missed(x, forwards_of_copies(x), credits).empty());
}

TEST_CASE("PLAN-9: copies with micro-batches in different orders do not meet",
          "[schedule][invariant]") {
  const auto x = plan_from_csv(
      "a0F0,b1F1,a0F1,b1B1,a0B0,b1F0,b1B0,a0B1\n"
      "b0F1,a1F0,b0F0,a1B0,b0B1,a1F1,a1B1,b0B0\n",
      "test");
  CHECK(validate(x).empty());
  CHECK(missed(x, forwards_of_copies(x)).starts_with("PLAN-9: rank 0 waits forever at a0F0"));
}
