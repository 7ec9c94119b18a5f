#include "runtime/schedule/behaviour.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/check.hpp"
#include "runtime/schedule/csv.hpp"
#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <functional>
#include <random>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

using answer = std::optional<action>;

/// A behaviour defined by a function.
class by_function : public behaviour {
 public:
  explicit by_function(std::function<answer(const stage_view&)> f) : f_(std::move(f)) {}
  answer next(const stage_view& now) override { return f_(now); }

 private:
  std::function<answer(const stage_view&)> f_;
};

behaviour_factory factory(const char* name, std::function<answer(const stage_view&)> f) {
  return {name, [f](int, int, int, int) { return std::make_unique<by_function>(f); }};
}

answer first_of(const stage_view& now, action_kind kind) {
  for (const auto& x : now.ready)
    if (x.kind == kind)
      return x;
  return {};
}

answer f_of(const stage_view& now) {
  return first_of(now, action_kind::forward);
}
answer i_of(const stage_view& now) {
  return first_of(now, action_kind::input_gradients);
}
answer w_of(const stage_view& now) {
  return first_of(now, action_kind::weight_gradients);
}

answer one_f_one_b(const stage_view& now) {
  if (const auto w = w_of(now))
    return w;
  if (now.held < std::min(now.ranks - now.rank, now.microbatches - now.finished[0].input_gradients))
    return f_of(now);
  return i_of(now);
}

answer all_f_first(const stage_view& now) {
  if (now.finished[0].forward < now.microbatches)
    return f_of(now);
  if (const auto w = w_of(now))
    return w;
  return i_of(now);
}

/// Zero bubble: input gradients first, then forwards with the deepest chunk first, then weight
/// gradients.
answer greedy(const stage_view& now) {
  if (const auto i = i_of(now))
    return i;
  for (auto x = now.ready.rbegin(); x != now.ready.rend(); ++x)
    if (x->kind == action_kind::forward && (x->chunk != now.hosted[0] || now.held < now.chunks))
      return *x;
  return w_of(now);
}

std::vector<std::vector<action>> split(std::vector<std::vector<action>> ranks) {
  for (auto& row : ranks) {
    std::vector<action> out;
    for (const auto& x : row) {
      out.push_back(x);
      if (x.kind != action_kind::backward)
        continue;
      out.back().kind = action_kind::input_gradients;
      out.push_back({action_kind::weight_gradients, x.chunk, x.microbatch});
    }
    row = std::move(out);
  }
  return ranks;
}

}  // namespace

TEST_CASE("a book offers actions with available inputs, micro-batches ascending", "[schedule]") {
  auto frame = one_forward_one_backward(3, 4);
  stage_book book(frame, 1);
  CHECK(book.view().ready.empty());
  const action f0{action_kind::forward, chunk_id(1), microbatch_id(0)};
  const action i0{action_kind::input_gradients, chunk_id(1), microbatch_id(0)};
  const action w0{action_kind::weight_gradients, chunk_id(1), microbatch_id(0)};
  book.arrive_activation(chunk_id(1), microbatch_id(1));
  CHECK(book.view().ready.empty());
  book.arrive_activation(chunk_id(1), microbatch_id(0));
  CHECK(book.view().ready == std::vector<action>{f0});
  book.choose(f0, "test");
  CHECK(book.view().held == 1);
  book.arrive_gradient(chunk_id(1), microbatch_id(0));
  auto f1 = f0;
  f1.microbatch = microbatch_id(1);
  CHECK(book.view().ready == std::vector<action>{f1, i0});
  book.choose(i0, "test");
  CHECK(book.view().ready == std::vector<action>{f1, w0});
  CHECK(book.view().held == 0);
  CHECK_FALSE(book.is_complete());
  CHECK_THROWS_MATCHES(
      book.choose(i0, "mine"),
      input_error,
      MessageMatches(ContainsSubstring("mine: rank 1 of 3 chose 1I0, which cannot run now: "
                                       "it was chosen before; ready: 1F1 1W0")));
}

TEST_CASE("chunks at the ends of the model, and neighbours on one rank, wait for no transfer",
          "[schedule]") {
  plan frame{"v", 4, 1, true, placed_in_v(2), {{}, {}}};
  stage_book book(frame, 1);  // has chunks 1 and 2
  book.arrive_activation(chunk_id(1), microbatch_id(0));
  const auto take = [&](action_kind kind, int chunk) {
    const action x{kind, chunk_id(chunk), microbatch_id(0)};
    CHECK(book.view().ready == std::vector<action>{x});
    book.choose(x, "test");
  };
  take(action_kind::forward, 1);
  take(action_kind::forward, 2);
  CHECK(book.view().ready.empty());
  CHECK(book.awaited()
        == std::vector<action>{{action_kind::input_gradients, chunk_id(3), microbatch_id(0)}});
  book.arrive_gradient(chunk_id(2), microbatch_id(0));
  take(action_kind::input_gradients, 2);
  CHECK(book.view().ready.size() == 2);  // 1I0 and 2W0
  stage_book ends(frame, 0);
  CHECK(to_string(ends.view().ready.at(0)) == "0F0");
}

TEST_CASE("1F1B and GPipe as behaviours equal the plans", "[schedule]") {
  for (const int p : {1, 2, 4, 7})
    for (const int m : {1, 2, 5, 12}) {
      CHECK(rehearse(factory("1f1b", one_f_one_b), p, m).ranks
            == split(one_forward_one_backward(p, m).ranks));
      const auto all = rehearse(factory("gpipe", all_f_first), p, m);
      CHECK(validate(all).empty());
      for (const auto& row : all.ranks)
        for (int i = 0; i < m; ++i)
          CHECK(row[std::size_t(i)].kind == action_kind::forward);
    }
}

TEST_CASE("the record of a behaviour is a sound plan, and deterministic", "[schedule]") {
  cost_model by;
  by.costs = {{1.1, 0.7, 1.3}, {0.4, 2.1, 0.3}, {1, 1, 1}, {3, 0.1, 0.2}};
  by.transfer = 0.3;
  for (const int queues : {0, 1, 2}) {
    by.queues = queues;
    const auto once = rehearse(factory("greedy", greedy), 4, 9, by);
    CHECK(validate(once).empty());
    CHECK(once.name == "greedy");
    CHECK(rehearse(factory("greedy", greedy), 4, 9, by) == once);
  }
}

TEST_CASE("CHOICE-READY: with any choice of ready actions the record is sound and adds in order",
          "[schedule][invariant]") {
  std::mt19937 random(7);
  const auto any = factory("any", [&](const stage_view& now) -> answer {
    if (now.ready.empty())
      return {};
    return now.ready[random() % now.ready.size()];
  });
  for (int i = 0; i < 200; ++i) {
    auto changed = any;
    changed.chunks_per_rank = 1 + int(random() % 3);
    if (random() % 2)
      changed.placement = [&](int ranks, int chunks) {
        std::vector<int> out;
        for (int c = 0; c < chunks; ++c)
          out.push_back(int(random() % unsigned(ranks)));
        return out;
      };
    const int ranks = 1 + int(random() % 5), microbatches = 1 + int(random() % 8);
    cost_model by;
    by.transfer = double(random() % 3);
    by.queues = int(random() % 3);
    const auto x = rehearse(changed, ranks, microbatches, by);
    CHECK(validate(x).empty());
    CHECK(accumulates_in_order(x));
  }
}

TEST_CASE("a behaviour reacts to the duration of actions", "[schedule]") {
  cost_model slow_end;
  slow_end.costs = {{1, 1, 1}, {5, 5, 5}};
  CHECK(rehearse(factory("greedy", greedy), 2, 4).ranks
        != rehearse(factory("greedy", greedy), 2, 4, slow_end).ranks);
}

TEST_CASE("the chunks of a rank can have a placement of their own", "[schedule]") {
  auto behaviour = factory("v", greedy);
  behaviour.chunks_per_rank = 2;
  behaviour.placement = [](int ranks, int) { return placed_in_v(ranks); };
  const auto x = rehearse(behaviour, 3, 5);
  CHECK(x.chunks == 6);
  CHECK(x.placement == placed_in_v(3));
  CHECK(validate(x).empty());
  behaviour.placement = [](int, int) { return std::vector<int>{0, 1, 2, 3, 1, 0}; };
  CHECK_THROWS_MATCHES(rehearse(behaviour, 3, 5),
                       input_error,
                       MessageMatches(ContainsSubstring("stage 3 on rank 3")));
  behaviour.placement = [](int, int) { return std::vector<int>{0}; };
  CHECK_THROWS_AS(rehearse(behaviour, 3, 5), input_error);
}

TEST_CASE("BEHAVIOUR-1: a behaviour decides for one copy of the model", "[schedule]") {
  auto frame = one_forward_one_backward(2, 2);
  frame.copies = 2;
  CHECK_BREAKS("BEHAVIOUR-1", stage_book(frame, 0));
}

TEST_CASE("REHEARSE-1: costs are given per chunk, or one for all", "[schedule]") {
  cost_model by;
  by.costs = {{}, {}};
  CHECK_BREAKS("REHEARSE-1", rehearse(factory("greedy", greedy), 3, 4, by));
}

TEST_CASE("an error of a choice that is not ready lists the ready actions", "[schedule]") {
  const auto wrong = factory("wrong", [](const stage_view& now) -> answer {
    if (now.rank == 0)
      return f_of(now);
    return action{action_kind::input_gradients, chunk_id(1), microbatch_id(0)};
  });
  CHECK_THROWS_MATCHES(
      rehearse(wrong, 2, 2),
      input_error,
      MessageMatches(ContainsSubstring("wrong: rank 1 of 2 chose 1I0, which cannot run now: "
                                       "1F0 comes first; ready: 1F0")));
  const auto elsewhere = factory("elsewhere", [](const stage_view&) -> answer {
    return action{action_kind::forward, chunk_id(0), microbatch_id(0)};
  });
  CHECK_THROWS_MATCHES(rehearse(elsewhere, 2, 2),
                       input_error,
                       MessageMatches(ContainsSubstring("it was chosen before")
                                      || ContainsSubstring("stage 0 is not on this rank")));
}

TEST_CASE("ranks that wait for each other are named as a cycle", "[schedule]") {
  // Rank 0 sends one at a time; rank 1 waits for two.
  const auto stuck = factory("stuck", [](const stage_view& now) -> answer {
    if (now.rank == 0)
      return now.held == 0 ? f_of(now) : i_of(now);
    return answer{};
  });
  CHECK_THROWS_MATCHES(
      rehearse(stuck, 2, 3),
      input_error,
      MessageMatches(
          ContainsSubstring("stuck: all ranks wait, after 1 of 18 actions")
          && ContainsSubstring("rank 0 has chosen 1 F, 0 I, 0 W; although 0F1 is ready, its "
                               "behaviour chooses nothing; it can still get 1I0")
          && ContainsSubstring("rank 1 has chosen 0 F, 0 I, 0 W; although 1F0 is ready, its "
                               "behaviour chooses nothing; it can still get 0F1")
          && ContainsSubstring("the cycle: rank 0 waits for 1I0 of rank 1, which waits for 0F1 of "
                               "rank 0 (ready there, but not chosen)")));
}

TEST_CASE("a behaviour that always waits is refused", "[schedule]") {
  const auto lazy = factory("lazy", [](const stage_view& now) -> answer {
    return now.rank == 1 && now.finished[0].input_gradients == 0 ? f_of(now) : greedy(now);
  });
  CHECK_THROWS_MATCHES(
      rehearse(lazy, 2, 2),
      input_error,
      MessageMatches(ContainsSubstring("rank 1 blocks all others: nothing more can arrive there, "
                                       "so its behaviour must choose 1I0")));
}

TEST_CASE("an exception of a behaviour is reported with schedule and rank", "[schedule]") {
  const auto broken
      = factory("broken", [](const stage_view&) -> answer { throw std::logic_error("no idea"); });
  CHECK_THROWS_MATCHES(rehearse(broken, 2, 2),
                       input_error,
                       MessageMatches(ContainsSubstring("broken: on rank 0 of 2: no idea")));
}
