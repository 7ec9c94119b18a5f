// Tests of the checker: a plan with a planted fault is refused, or an independent judge runs it to
// the end and finds it correct.

#include "runtime/schedule/check.hpp"
#include "runtime/schedule/csv.hpp"
#include "runtime/schedule/lower.hpp"
#include "tests/runtime/schedule/generated.hpp"

#include <catch2/catch_test_macros.hpp>

#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

constexpr auto F = action_kind::forward, B = action_kind::backward,
               I = action_kind::input_gradients, W = action_kind::weight_gradients,
               R = action_kind::recompute, SF = action_kind::send_activation,
               RF = action_kind::receive_activation, SB = action_kind::send_gradient,
               RB = action_kind::receive_gradient, reduce = action_kind::reduce_gradients;

/// Runs all actions that can run, one after the other, and records them in sets.
class judge {
 public:
  judge(const plan& x, int credits) : plan_(x), credits_(credits), next_(x.ranks.size()) {
    for (const auto& row : x.ranks)
      for (const auto& a : row)
        lowered_ = lowered_ || a.kind == SF || a.kind == RF || a.kind == SB || a.kind == RB;
  }

  /// True if every action of a step ran once, without any others.
  bool comes_to_a_good_end() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < next_.size(); ++r)
        while (!broken_ && step(r))
          moved = true;
    }
    for (std::size_t r = 0; r < next_.size(); ++r)
      if (next_[r] != plan_.ranks[r].size())
        return false;
    return !broken_ && done_ == everything() && links_are_empty();
  }

  bool adds_in_ascending_order() const {
    for (const auto& [whose, order] : added_)
      for (std::size_t i = 1; i < order.size(); ++i)
        if (order[i] < order[i - 1])
          return false;
    return true;
  }

 private:
  /// kind, copy, chunk, micro-batch, block
  using fact = std::tuple<action_kind, int, int, int, int>;

  static fact fact_of(const action& x) {
    return {x.kind, int(value(x.copy)), int(value(x.chunk)), int(value(x.microbatch)), x.block};
  }
  int rank_of(int copy, int chunk) const {
    return plan_.placement[std::size_t(copy * plan_.chunks + chunk)];
  }
  int blocks_of(int chunk) const {
    return plan_.blocks.empty() ? 1 : int(plan_.blocks[std::size_t(chunk)].size());
  }
  bool is_rebuilt(int chunk, int block) const {
    return !plan_.blocks.empty() && plan_.blocks[std::size_t(chunk)][std::size_t(block)] != 0;
  }
  bool done(const fact& x) const { return done_.count(x) > 0; }

  std::set<fact> everything() const {
    std::set<fact> out;
    bool reduces = false;
    for (const auto& row : plan_.ranks)
      for (const auto& a : row)
        reduces = reduces || a.kind == reduce;
    for (int k = 0; k < plan_.copies; ++k)
      for (int c = 0; c < plan_.chunks; ++c) {
        for (int m = 0; m < plan_.microbatches / plan_.copies; ++m) {
          out.insert({F, k, c, m, 0});
          for (int b = 0; b < blocks_of(c); ++b) {
            out.insert({I, k, c, m, b});
            out.insert({W, k, c, m, b});
            if (is_rebuilt(c, b))
              out.insert({R, k, c, m, b});
          }
          if (lowered_ && c + 1 < plan_.chunks && rank_of(k, c) != rank_of(k, c + 1))
            out.insert(
                {{SF, k, c, m, 0}, {RF, k, c + 1, m, 0}, {SB, k, c + 1, m, 0}, {RB, k, c, m, 0}});
        }
        if (reduces)
          out.insert({reduce, k, c, 0, 0});
      }
    return out;
  }

  /// A queue per direction between neighbouring chunks, for activations and for gradients.
  std::deque<fact>* queue_of(const fact& x) {
    const auto& [kind, k, c, m, b] = x;
    const int other = kind == SF || kind == RB ? c + 1 : c - 1;
    if (other < 0 || other >= plan_.chunks)
      return nullptr;
    const int here = rank_of(k, c), there = rank_of(k, other);
    if (here == there)
      return nullptr;
    const bool sends = kind == SF || kind == SB;
    return &links_[{sends ? here : there, sends ? there : here, kind == SB || kind == RB}];
  }
  bool links_are_empty() const {
    for (const auto& [link, queue] : links_)
      if (!queue.empty())
        return false;
    return true;
  }

  /// True if the input of this chunk's forward pass is available.
  bool has_input(int k, int c, int m) const {
    if (c == 0)
      return true;
    const bool far = rank_of(k, c) != rank_of(k, c - 1);
    return lowered_ && far ? done({RF, k, c, m, 0}) : done({F, k, c - 1, m, 0});
  }
  bool has_gradient(int k, int c, int m) const {
    if (c + 1 == plan_.chunks)
      return true;
    const bool far = rank_of(k, c) != rank_of(k, c + 1);
    return lowered_ && far ? done({RB, k, c, m, 0}) : done({I, k, c + 1, m, 0});
  }

  bool can_go(const action& x) {
    const auto [kind, k, c, m, b] = fact_of(x);
    switch (kind) {
      case F:
        return has_input(k, c, m);
      case R:
        return done({F, k, c, m, 0});
      case B:
      case I:
        return done({F, k, c, m, 0}) && (!is_rebuilt(c, b) || done({R, k, c, m, b}))
               && (b + 1 < blocks_of(c) ? done({I, k, c, m, b + 1}) : has_gradient(k, c, m));
      case W:
        return done({I, k, c, m, b});
      case SF:
      case SB: {
        const auto* queue = queue_of(fact_of(x));
        return queue && done({kind == SF ? F : I, k, c, m, 0})
               && (credits_ == 0 || int(queue->size()) < credits_);
      }
      case RF:
      case RB: {
        const auto* queue = queue_of(fact_of(x));
        return queue && !queue->empty();
      }
      case reduce: {
        for (int i = 0; i < plan_.microbatches / plan_.copies; ++i)
          for (int j = 0; j < blocks_of(c); ++j)
            if (!done({W, k, c, i, j}))
              return false;
        return true;
      }
    }
    return false;
  }

  void note(const fact& x) { broken_ = !done_.insert(x).second || broken_; }

  void carry_out(const action& x) {
    const auto [kind, k, c, m, b] = fact_of(x);
    if (kind == B) {
      note({I, k, c, m, b});
      note({W, k, c, m, b});
    } else {
      note(fact_of(x));
    }
    if (kind == B || kind == W)
      added_[{k, c, b}].push_back(m);
    if (kind == SF || kind == SB)
      queue_of(fact_of(x))->push_back({kind == SF ? RF : RB, k, kind == SF ? c + 1 : c - 1, m, 0});
    if (kind == RF || kind == RB) {
      auto* queue = queue_of(fact_of(x));
      broken_ = broken_ || queue->front() != fact_of(x);  // another tensor
      queue->pop_front();
    }
  }

  bool is_of_this_rank(const action& x, std::size_t rank) const {
    const auto [kind, k, c, m, b] = fact_of(x);
    return k < plan_.copies && c < plan_.chunks && m < plan_.microbatches / plan_.copies
           && b < blocks_of(c) && rank_of(k, c) == int(rank);
  }

  bool step(std::size_t rank) {
    const auto& row = plan_.ranks[rank];
    const auto at = next_[rank];
    if (at == row.size())
      return false;
    const std::size_t count = row[at].with_next ? 2 : 1;
    if (at + count > row.size() || (count == 2 && !is_a_pair(row[at], row[at + 1]))) {
      broken_ = true;
      return false;
    }
    for (auto i = at; i < at + count; ++i)
      if (!is_of_this_rank(row[i], rank)) {
        broken_ = true;
        return false;
      }
    for (auto i = at; i < at + count; ++i)
      if (!can_go(row[i]))
        return false;
    for (auto i = at; i < at + count; ++i)
      carry_out(row[i]);
    next_[rank] += count;
    return true;
  }

  static bool is_a_pair(const action& a, const action& b) {
    const auto back = [](const action& x) { return x.kind == B || x.kind == I; };
    return !b.with_next && ((a.kind == F && back(b)) || (back(a) && b.kind == F));
  }

  const plan& plan_;
  int credits_;
  bool lowered_ = false, broken_ = false;
  std::vector<std::size_t> next_;
  std::set<fact> done_;
  std::map<std::tuple<int, int, bool>, std::deque<fact>> links_;
  std::map<std::tuple<int, int, int>, std::vector<int>> added_;
};

struct verdicts {
  std::map<std::string, int> refused, harmless;
};

class corpus {
 public:
  explicit corpus(verdicts& seen) : seen_(seen) {}

  void plant(const plan& sound, int credits, bool everywhere) {
    judge_one("nothing", sound, credits);
    for (std::size_t r = 0; r < sound.ranks.size(); ++r) {
      const auto size = sound.ranks[r].size();
      for (std::size_t i = 0; i < size; ++i) {
        plant_at(sound, credits, r, i);
        for (std::size_t j = i + 1; j < size; ++j)
          if (const auto distance = j - i; everywhere || distance < 3 || distance % 13 == 5)
            change(distance == 1 ? "swap of neighbours" : "swap at a distance",
                   sound,
                   credits,
                   [&](plan& x) { std::swap(x.ranks[r][i], x.ranks[r][j]); });
        if (const auto kind = sound.ranks[r][i].kind; kind == RF || kind == RB)
          for (std::size_t j = 0; j < size; ++j)
            if (const auto distance = j < i ? i - j : j - i;
                distance > 0 && (everywhere || distance < 3 || distance % 13 == 5))
              change("receive moved", sound, credits, [&](plan& x) { move(x.ranks[r], i, j); });
      }
    }
    for (int fewer = credits - 1; fewer > 0; --fewer)
      judge_one("fewer credits", sound, fewer);
  }

 private:
  static void move(std::vector<action>& row, std::size_t from, std::size_t to) {
    const auto what = row[from];
    row.erase(row.begin() + std::ptrdiff_t(from));
    row.insert(row.begin() + std::ptrdiff_t(to), what);
  }

  void plant_at(const plan& sound, int credits, std::size_t r, std::size_t i) {
    change("drop", sound, credits, [&](plan& x) {
      x.ranks[r].erase(x.ranks[r].begin() + std::ptrdiff_t(i));
    });
    for (const auto to : {i, sound.ranks[r].size()})
      change("duplicate", sound, credits, [&](plan& x) {
        auto again = x.ranks[r][i];
        again.with_next = false;
        x.ranks[r].insert(x.ranks[r].begin() + std::ptrdiff_t(to), again);
      });
    change("to another rank", sound, credits, [&](plan& x) {
      move_between(x.ranks[r], i, x.ranks[(r + 1) % x.ranks.size()]);
    });
    if (sound.ranks[r][i].kind == reduce)
      return;  // has no micro-batch
    change("another micro-batch", sound, credits, [&](plan& x) {
      auto& m = x.ranks[r][i].microbatch;
      m = microbatch_id((value(m) + 1) % unsigned(x.microbatches_each()));
    });
  }

  static void move_between(std::vector<action>& from, std::size_t i, std::vector<action>& to) {
    to.insert(to.begin() + std::ptrdiff_t(std::min(i, to.size())), from[i]);
    from.erase(from.begin() + std::ptrdiff_t(i));
  }

  template <class Change>
  void change(const char* kind, const plan& sound, int credits, Change&& edit) {
    auto mutant = sound;
    edit(mutant);
    if (mutant != sound)
      judge_one(kind, mutant, credits);
  }

  void judge_one(const std::string& kind, const plan& x, int credits) {
    const auto report = check_plan(x, {.credits = credits});
    judge by(x, credits);
    const bool good = by.comes_to_a_good_end();
    ++(report.is_sound() ? seen_.harmless : seen_.refused)[kind];
    if (report.is_sound() == good
        && (!good || report.notes.empty() == (by.adds_in_ascending_order() && x.copies == 1))
        && (!good || accumulates_in_order(x) == report.notes.empty()))
      return;
    CAPTURE(x.name, kind, credits, to_csv(x), report.complaints, report.notes, good);
    FAIL_CHECK("checker and judge disagree");
  }

  verdicts& seen_;
};

}  // namespace

TEST_CASE("every mutant of a plan is refused, or proved harmless",
          "[schedule][mutants][unsanitized]") {
  verdicts seen;
  corpus all(seen);
  const auto plant = [&](const plan& x, bool everywhere) {
    CAPTURE(x.name);
    all.plant(x, 0, everywhere);
    all.plant(lowered(x), 2, everywhere);
  };
  for (const auto& one : named_schedules()) {
    if (one.name == "auto")
      continue;  // equals or resembles one of these
    plant(generated(one.name, 2, 4), true);
    plant(generated(one.name, 4, 8), false);
  }
  plant(with_recomputation(generated("1f1b", 2, 3), {{1, 0}, {1, 1}}), true);
  plant(with_recomputation(generated("zb-h1", 2, 3), {{1}, {0, 1}}), true);

  for (const auto* kind : {"drop",
                           "duplicate",
                           "swap of neighbours",
                           "swap at a distance",
                           "receive moved",
                           "to another rank",
                           "another micro-batch"}) {
    CAPTURE(kind, seen.refused[kind], seen.harmless[kind]);
    CHECK(seen.refused[kind] > 100);
  }
  for (const auto* kind :
       {"swap of neighbours", "swap at a distance", "receive moved", "fewer credits", "nothing"}) {
    CAPTURE(kind, seen.refused[kind], seen.harmless[kind]);
    CHECK(seen.harmless[kind] > 0);
  }
  CHECK(seen.refused["fewer credits"] > 0);
  CHECK(seen.refused["nothing"] == 0);
}
