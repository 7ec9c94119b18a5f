// Credits of hand-offs: they match their definition, cause no deadlock, and cost no time. The judge
// runs rows action by action, as stages do, and shares no code with the checker.

#include "runtime/schedule/credits.hpp"

#include "runtime/schedule/behaviour.hpp"
#include "runtime/schedule/csv.hpp"
#include "runtime/schedule/lower.hpp"
#include "tests/runtime/schedule/generated.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::generated;

namespace {

/// Runs the rows with the given credits; `cost` gives the duration of each action.
class stages {
 public:
  using cost_of = std::function<double(const action&)>;

  stages(const plan& x, std::optional<handoff_credits> credits, cost_of cost, double transfer)
      : plan_(x), credits_(std::move(credits)), cost_(std::move(cost)), transfer_(transfer) {
    for (const auto& row : x.ranks)
      rows_.push_back(with_split_backward(row));
    next_.resize(rows_.size());
    free_.resize(rows_.size());
  }

  /// The makespan, or nothing after a deadlock.
  std::optional<double> run() {
    for (bool moved = true; std::exchange(moved, false);)
      for (std::size_t r = 0; r < rows_.size(); ++r)
        while (next_[r] < rows_[r].size() && begin(r))
          moved = true;
    for (std::size_t r = 0; r < rows_.size(); ++r)
      if (next_[r] < rows_[r].size())
        return std::nullopt;
    return *std::max_element(free_.begin(), free_.end());
  }

 private:
  using link = std::tuple<copy_id, int, bool>;  // producing chunk; true: gradients

  std::optional<link> far(const action& x, int maker, int taker, bool gradient) const {
    if (maker < 0 || taker < 0 || maker >= plan_.chunks || taker >= plan_.chunks
        || plan_.rank_of(chunk_id(maker), x.copy) == plan_.rank_of(chunk_id(taker), x.copy))
      return std::nullopt;
    return link(x.copy, maker, gradient);
  }

  bool begin(std::size_t r) {
    const auto& x = rows_[r][next_[r]];
    const int c = int(value(x.chunk));
    const bool f = x.kind == action_kind::forward, i = x.kind == action_kind::input_gradients;
    double at = free_[r];
    const int from = f ? c - 1 : i ? c + 1 : -1;
    if (from >= 0 && from < plan_.chunks) {
      const auto made = ends_.find({x.copy, from, x.kind, value(x.microbatch)});
      if (made == ends_.end())
        return false;
      const bool away = far(x, from, c, i).has_value();
      at = std::max(at, made->second + (away ? transfer_ : 0));
    }
    const auto out = f ? far(x, c, c + 1, false) : i ? far(x, c, c - 1, true) : std::nullopt;
    if (out && credits_) {
      const auto room
          = std::size_t((i ? credits_->gradients : credits_->activations)
                            .at(value(x.copy) * std::size_t(plan_.chunks) + std::size_t(c)));
      const auto& taken = taken_[*out];
      const auto k = made_[*out];
      if (k >= room && k - room >= taken.size())
        return false;
      if (k >= room)
        at = std::max(at, taken[k - room]);
    }
    if (out)
      ++made_[*out];
    const auto in = f ? far(x, c - 1, c, false) : i ? far(x, c + 1, c, true) : std::nullopt;
    if (in)
      taken_[*in].push_back(at);  // redeems at its begin
    free_[r] = at + cost_(x);
    if (x.block == 0)
      ends_[{x.copy, c, x.kind, value(x.microbatch)}] = free_[r];
    ++next_[r];
    return true;
  }

  const plan& plan_;
  std::optional<handoff_credits> credits_;
  cost_of cost_;
  double transfer_;
  std::vector<std::vector<action>> rows_;
  std::vector<std::size_t> next_;
  std::vector<double> free_;
  std::map<std::tuple<copy_id, int, action_kind, std::uint32_t>, double> ends_;
  std::map<link, std::size_t> made_;
  std::map<link, std::vector<double>> taken_;
};

double alike(const action&) {
  return 1;
}

/// All named schedules at supported sizes, and a forward-only plan.
std::vector<plan> plans() {
  std::vector<plan> out;
  std::set<std::string> names;
  for (const auto& named : named_schedules())
    for (const int ranks : {2, 4})
      for (const int microbatches : {2 * ranks, 6 * ranks}) {
        if (named.name == "auto")
          continue;
        out.push_back(generated(named.name, ranks, microbatches));
        names.insert(std::string(named.name));
        if (const auto& x = out.back(); x.training)
          out.push_back(forward_only(
              ranks, {x.placement.begin(), x.placement.begin() + x.chunks}, microbatches));
      }
  REQUIRE(names.size() >= 12);
  return out;
}

const handoff_credits unbounded_of(const plan& x) {
  return credits_of(x, {}, 1 << 20);
}

}  // namespace

TEST_CASE("PLAN-6: with its own credits no named schedule deadlocks or gets slower",
          "[schedule][invariant]") {
  for (const auto& x : plans()) {
    CAPTURE(x.name, x.ranks.size(), x.microbatches, x.training);
    REQUIRE(check_plan(x).is_sound());
    const auto own = credits_of(x);
    CHECK(check_handoffs(x, own).empty());
    for (const double transfer : {0.0, 0.5, 1.0}) {
      CAPTURE(transfer);
      const auto free = stages(x, {}, alike, transfer).run();
      const auto bound = stages(x, own, alike, transfer).run();
      REQUIRE((free && bound));
      CHECK(*bound == *free);
    }
    // Random durations, unlike planned, to find time lost by credits.
    std::mt19937 random(7);
    std::map<std::string, double> drawn;
    const auto uneven = [&](const action& a) {
      const auto found = drawn.find(to_string(a, x.copies));
      if (found != drawn.end())
        return found->second;
      return drawn[to_string(a, x.copies)] = std::uniform_real_distribution(0.5, 1.5)(random);
    };
    const auto free = stages(x, {}, uneven, 0.3).run(), bound = stages(x, own, uneven, 0.3).run();
    REQUIRE((free && bound));
    CHECK(*bound <= 1.03 * *free);
  }
}

TEST_CASE("PLAN-6: with few credits exactly the plans with a deadlock are refused",
          "[schedule][invariant]") {
  int refused = 0, sound = 0;
  for (const auto& x : plans())
    for (const int told : {1, 2, 3}) {
      CAPTURE(x.name, x.ranks.size(), x.microbatches, x.training, told);
      const auto few = credits_of(x, {}, told);
      const bool ends = stages(x, few, alike, 0).run().has_value();
      const auto said = check_handoffs(x, few);
      CAPTURE(said);
      // In the checker both actions of a pair begin together; stages run one after the other.
      if (x.copies == 1 && x.name != "dualpipev")
        CHECK(said.empty() == ends);
      else
        CHECK((ends || !said.empty()));
      (said.empty() ? sound : refused) += 1;
    }
  CHECK(refused > 0);
  CHECK(sound > refused);
}

TEST_CASE("PLAN-6: a refusal names ranks, actions and the missing credit",
          "[schedule][invariant]") {
  // Rank 0 sends four activations before it takes a gradient; rank 1 sends two gradients before it
  // takes the third activation.
  auto x = plan_from_csv("0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1B0,1B1,1F2,1F3,1B2,1B3\n", "x");
  REQUIRE(check_plan(x).is_sound());
  CHECK(check_handoffs(x, credits_of(x)).empty());
  CHECK(check_handoffs(x, credits_of(x, {}, 2)).empty());
  const auto said = check_handoffs(x, credits_of(x, {}, 1));
  REQUIRE(said.size() == 1);
  CHECK(said.front()
        == "PLAN-6: with the credits of its hand-offs, rank 0 waits at 0F3 for the credit of 1F2 of "
           "rank 1, which waits at 1B1 for the credit of 0B0 of rank 0");
}

TEST_CASE("each hand-off between two ranks is listed with its stages and credits", "[schedule]") {
  const auto v = generated("zb-v", 2, 4);  // stages 0 and 3 are on rank 0, 1 and 2 on rank 1
  const auto credits = credits_of(v, {}, 7);
  const auto all = handoffs_of(v, credits);
  const auto to = [](int from, int next, int rank, bool gradient) {
    return handoff{.from = chunk_id(std::uint32_t(from)),
                   .to = chunk_id(std::uint32_t(next)),
                   .from_rank = rank,
                   .to_rank = 1 - rank,
                   .gradient = gradient,
                   .credits = 7};
  };
  CHECK(
      all
      == std::vector{to(0, 1, 0, false), to(1, 0, 1, true), to(2, 3, 1, false), to(3, 2, 0, true)});
  const auto both = generated("dualpipe", 2, 4);  // two copies
  for (const auto& x : handoffs_of(both, credits_of(both))) {
    CHECK(x.from_rank == both.rank_of(x.from, x.copy));
    CHECK(x.to_rank == both.rank_of(x.to, x.copy));
    CHECK(x.credits > credits_in_transit);
  }
  CHECK(handoffs_of(both, credits_of(both)).size() == 4);
}

TEST_CASE("credits are the results held at once, plus two; neighbours on one rank have none",
          "[schedule]") {
  const auto steady = credits_of(forward_only(2, 16));
  CHECK(steady.activations == std::vector<int>{2 + credits_in_transit, 0});
  CHECK(steady.gradients == std::vector<int>{0, 0});
  CHECK(credits_of(forward_only(2, 1024)) == steady);  // for any number of micro-batches
  const auto v = generated("zb-v", 2, 4);              // chunks 1 and 2 are on rank 1
  const auto of_v = credits_of(v);
  CHECK(of_v.activations[1] == 0);
  CHECK(of_v.gradients[2] == 0);
  CHECK(of_v.activations[0] > credits_in_transit);
  CHECK(of_v.gradients[3] > credits_in_transit);
  CHECK(credits_of(v, {}, 1).activations == std::vector<int>{1, 0, 1, 0});
  // A slow receiver gets more credits, at most one per micro-batch.
  cost_model late;
  late.costs = {{1, 1, 1}, {4, 1, 1}};
  CHECK(credits_of(forward_only(2, 16), late).activations[0] > 10);
  CHECK(unbounded_of(forward_only(2, 16)).activations[0] == 1 << 20);
}

namespace {

/// Runs forwards first, whatever accumulates.
class greedy final : public behaviour {
 public:
  std::optional<action> next(const stage_view& now) override { return now.ready.front(); }
};

}  // namespace

TEST_CASE("a behaviour is offered only actions with a credit, and never deadlocks", "[schedule]") {
  behaviour_factory factory{"greedy",
                            [](int, int, int, int) { return std::make_unique<greedy>(); }};
  for (const int ranks : {2, 4})
    for (const int chunks : {1, 2})
      for (const int told : {1, 2, 3}) {
        CAPTURE(ranks, chunks, told);
        factory.chunks_per_rank = chunks;
        cost_model slow_end;
        slow_end.costs.assign(std::size_t(ranks * chunks), {1, 1, 1});
        slow_end.costs.back() = {5, 1, 1};
        const auto x = rehearse(factory, ranks, 12, slow_end, told);
        REQUIRE(check_plan(x).is_sound());
        CHECK(check_handoffs(x, credits_of(x, {}, told)).empty());
      }
  plan frame = forward_only(2, 4);
  frame.training = true;
  stage_book book(frame, 0);
  book.bound({{1, 0}, {0, 1}});
  REQUIRE(book.view().ready.size() == 1);
  book.choose(book.view().ready.front(), "test");
  CHECK(book.view().ready.empty());
  CHECK_THROWS_WITH(book.choose({action_kind::forward, chunk_id(0), microbatch_id(1)}, "test"),
                    ContainsSubstring("has not taken enough"));
  book.give_back(chunk_id(0), false);
  CHECK(book.view().ready.size() == 1);
}
