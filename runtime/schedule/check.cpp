#include "runtime/schedule/check.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/schedule/accumulation.hpp"
#include "runtime/schedule/block_tally.hpp"
#include "runtime/schedule/lower.hpp"
#include "runtime/schedule/plan_graph.hpp"
#include "runtime/schedule/waits.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <map>

namespace troupe::runtime {
namespace {

constexpr std::size_t kind_count = std::size_t(action_kind::reduce_gradients) + 1;
constexpr std::size_t most_listed = 24;

class check {
 public:
  check(const plan& x, std::vector<std::string>& out) : plan_(x), graph_(x), links_(x), out_(out) {}

  const plan_graph& graph() const { return graph_; }

  template <class... Args>
  void complain(fmt::format_string<Args...> text, Args&&... args) {
    if (++found_ <= most_listed)
      out_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  bool nothing_found() const { return found_ == 0; }
  void count_the_rest() {
    if (found_ > most_listed)
      out_.push_back(fmt::format("and {} more like these", found_ - most_listed));
  }

  void check_once();
  void check_order_on_ranks();
  void check_queues();
  void check_reductions();

 private:
  std::string name(const action& x) const { return to_string(x, plan_.copies); }
  bool stands_well(const action& x, std::size_t rank);
  void check_counts();
  void check_counts(copy_id copy, chunk_id chunk, int block);
  void check_transfers(const action& of);
  int& count(action_kind kind, action of, int block = 0) {
    of.block = std::uint16_t(block);
    return counts_[std::size_t(kind)][graph_.slot(of)];
  }
  template <class Each>
  void for_each_microbatch(Each&& each) {
    for (int k = 0; k < plan_.copies; ++k)
      for (int c = 0; c < plan_.chunks; ++c)
        for (int m = 0; m < plan_.microbatches_each(); ++m)
          each(action{action_kind::forward, chunk_id(c), microbatch_id(m), 0, copy_id(k)});
  }
  std::vector<std::vector<action>> on_links(bool sends) const;
  std::string name(const plan_links::link& x) const {
    return fmt::format("the link of rank {} to rank {} for {}",
                       x.from,
                       x.to,
                       x.gradients ? "gradients" : "activations");
  }

  const plan& plan_;
  const plan_graph graph_;
  const plan_links links_;
  std::vector<std::string>& out_;
  std::size_t found_ = 0;
  std::array<std::vector<int>, kind_count> counts_;
};

bool check::stands_well(const action& x, std::size_t rank) {
  const auto k = value(x.copy), c = value(x.chunk);
  if (k >= std::uint32_t(plan_.copies) || c >= std::uint32_t(plan_.chunks)
      || value(x.microbatch) >= std::uint32_t(plan_.microbatches_each())) {
    complain(
        "PLAN-1: {} on rank {} names a stage or micro-batch outside this step ({} stages, {} "
        "micro-batches{})",
        name(x),
        rank,
        plan_.chunks,
        plan_.microbatches_each(),
        plan_.copies > 1 ? " of each copy" : "");
    return false;
  }
  const bool has_block = x.kind != action_kind::forward && is_work(x.kind);
  if (int(x.block) >= (has_block ? graph_.blocks_of(c) : 1)) {
    if (has_block)
      complain(
          "PLAN-1: {} on rank {}: stage {} has {} blocks", name(x), rank, c, graph_.blocks_of(c));
    else
      complain("PLAN-1: {} on rank {}: only R, B, I and W have a block", name(x), rank);
    return false;
  }
  if (const int home = graph_.rank_of(k, c); home != int(rank))
    complain("PLAN-1: {} is on rank {}, but its stage is on rank {}", name(x), rank, home);
  if (is_transfer(x.kind) && links_.of(x) == plan_links::none) {
    complain("PLAN-5: {} on rank {} is a transfer without another rank", name(x), rank);
    return false;
  }
  return true;
}

/// Reports the same mistake in several micro-batches once.
void check::check_counts(copy_id copy, chunk_id chunk, int block) {
  const int back = plan_.training ? 1 : 0;
  const int again = plan_.training && graph_.is_rebuilt(value(chunk), block) ? 1 : 0;
  std::map<block_tally, std::vector<int>> wrong;
  for (int m = 0; m < plan_.microbatches_each(); ++m) {
    const action of{action_kind::forward, chunk, microbatch_id(m), 0, copy};
    const block_tally seen{count(action_kind::forward, of),
                           count(action_kind::backward, of, block),
                           count(action_kind::recompute, of, block),
                           count(action_kind::input_gradients, of, block),
                           count(action_kind::weight_gradients, of, block)};
    if (!seen.is_complete(back, again))
      wrong[seen].push_back(m);
  }
  const auto stage
      = fmt::format("{}stage {}{}",
                    plan_.copies > 1 ? fmt::format("copy {} ", char('a' + value(copy))) : "",
                    value(chunk),
                    graph_.blocks_of(value(chunk)) > 1 ? fmt::format(" block {}", block) : "");
  for (const auto& [seen, microbatches] : wrong)
    if (const auto missing = seen.missing(back, again); !missing.empty())
      complain("PLAN-1: {} lacks {} of {}", stage, missing, list_of_microbatches(microbatches));
    else
      complain(
          "PLAN-1: {} has F {} times, B {}, R {}, I {}, W {} of {}; it needs F once, {}, and R {} "
          "times",
          stage,
          seen.f,
          seen.b,
          seen.r,
          seen.i,
          seen.w,
          list_of_microbatches(microbatches),
          plan_.training ? "B once or I and W once each" : "no B, I or W",
          again);
}

void check::check_counts() {
  std::map<int, std::vector<int>> of_idle;  // stages by rank
  for (int k = 0; k < plan_.copies; ++k)
    for (int c = 0; c < plan_.chunks; ++c) {
      const int home = graph_.rank_of(std::uint32_t(k), std::uint32_t(c));
      if (plan_.ranks[std::size_t(home)].empty()) {
        of_idle[home].push_back(c);
        continue;
      }
      for (int block = 0; block < graph_.blocks_of(std::uint32_t(c)); ++block)
        check_counts(copy_id(k), chunk_id(c), block);
    }
  for (const auto& [rank, stages] : of_idle)
    complain("PLAN-1: rank {} does nothing: {} {} lack{} F{} of {}",
             rank,
             stages.size() == 1 ? "stage" : "stages",
             fmt::join(stages, ", "),
             stages.size() == 1 ? "s" : "",
             plan_.training ? " and B" : "",
             counted(plan_.microbatches_each(), "micro-batch", "micro-batches"));
}

void check::check_transfers(const action& of) {
  const auto expect = [&](action_kind kind, bool training) {
    auto x = of;
    x.kind = kind;
    if (links_.of(x) == plan_links::none)
      return;
    const int wanted = training && !plan_.training ? 0 : 1, seen = count(kind, of);
    if (seen != wanted)
      complain("PLAN-5: {} is in the plan {} times, not {}", name(x), seen, wanted);
  };
  expect(action_kind::send_activation, false);
  expect(action_kind::receive_activation, false);
  expect(action_kind::send_gradient, true);
  expect(action_kind::receive_gradient, true);
}

void check::check_once() {
  for (auto& of : counts_)
    of.assign(graph_.slots(), 0);
  for (std::size_t r = 0; r < plan_.ranks.size(); ++r) {
    const auto& row = plan_.ranks[r];
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto& a = row[i];
      if (stands_well(a, r))
        ++count(a.kind, a, a.block);
      if (!a.with_next)
        continue;
      const auto is_back = [](const action& x) {
        return x.kind == action_kind::backward || x.kind == action_kind::input_gradients;
      };
      const auto is_forward = [](const action& x) { return x.kind == action_kind::forward; };
      if (i + 1 == row.size() || row[i + 1].with_next
          || !((is_forward(a) && is_back(row[i + 1])) || (is_back(a) && is_forward(row[i + 1]))))
        complain(
            "PLAN-1: {} on rank {} begins a pair, and a pair is an F and a B or I, side by "
            "side",
            name(a),
            r);
    }
  }
  check_counts();
  if (graph_.has_transfers())
    for_each_microbatch([&](const action& of) { check_transfers(of); });
}

/// An action must come after the actions of its own rank that it needs.
void check::check_order_on_ranks() {
  for (std::size_t r = 0; r < plan_.ranks.size(); ++r)
    for (auto n = graph_.row_begin(r); n < graph_.row_end(r); ++n) {
      const auto& a = graph_.at(n, r);
      const bool second = n > graph_.row_begin(r) && graph_.at(n - 1, r).with_next;
      for (const auto& need : graph_.needs_of(n, r)) {
        if (need.of < graph_.row_begin(r) || need.of >= graph_.row_end(r))
          continue;
        if (need.of > n)
          complain("PLAN-2: on rank {} {} comes before {}, which it needs",
                   r,
                   name(a),
                   name(graph_.at(need.of, r)));
        else if (second && need.of == n - 1)
          complain("PLAN-2: on rank {} {} cannot overlap with {}, which it needs",
                   r,
                   name(a),
                   name(graph_.at(need.of, r)));
      }
    }
}

/// Sends are converted to their receives; receives are unchanged.
std::vector<std::vector<action>> check::on_links(bool sends) const {
  std::vector<std::vector<action>> out(links_.size());
  for (const auto& row : plan_.ranks)
    for (auto a : row) {
      if (!is_transfer(a.kind) || is_send(a.kind) != sends)
        continue;
      const auto link = links_.of(a);
      if (a.kind == action_kind::send_activation) {
        a.kind = action_kind::receive_activation;
        a.chunk = chunk_id(value(a.chunk) + 1);
      } else if (a.kind == action_kind::send_gradient) {
        a.kind = action_kind::receive_gradient;
        a.chunk = chunk_id(value(a.chunk) - 1);
      }
      out[link].push_back(a);
    }
  return out;
}

void check::check_queues() {
  if (!graph_.has_transfers())
    return;
  const auto sent = on_links(true), received = on_links(false);
  for (std::size_t on = 0; on < links_.size(); ++on) {
    const auto [s, r]
        = std::mismatch(sent[on].begin(), sent[on].end(), received[on].begin(), received[on].end());
    if (s != sent[on].end() && r != received[on].end())
      complain(
          "PLAN-5: {} delivers in the order of its sends: number {} is for {}, and {} waits "
          "for it",
          name(links_[on]),
          s - sent[on].begin(),
          name(*s),
          name(*r));
  }
}

void check::check_reductions() {
  std::vector<int> reduced(plan_.placement.size());
  const auto owner
      = [&](const action& a) { return value(a.copy) * std::size_t(plan_.chunks) + value(a.chunk); };
  bool any = false;
  for (std::size_t r = 0; r < plan_.ranks.size(); ++r)
    for (const auto& a : plan_.ranks[r]) {
      if (a.kind == action_kind::reduce_gradients) {
        any = true;
        ++reduced[owner(a)];
      } else if (reduced[owner(a)] > 0
                 && (a.kind == action_kind::backward || a.kind == action_kind::weight_gradients))
        complain("PLAN-8: on rank {} {} comes after the gradients of its stage were reduced",
                 r,
                 name(a));
    }
  for (std::size_t i = 0; any && i < reduced.size(); ++i)
    if (reduced[i] != (plan_.training ? 1 : 0))
      complain("PLAN-8: the gradients of {}stage {} are reduced {} times, not {}",
               plan_.copies > 1
                   ? fmt::format("copy {} ", char('a' + int(i / std::size_t(plan_.chunks))))
                   : "",
               i % std::size_t(plan_.chunks),
               reduced[i],
               plan_.training ? 1 : 0);
}

void check_credits(const plan& x, int credits, check& to) {
  const auto written = has_transfers(x) ? x : lowered(x);
  for (const auto& circle : circular_waits(plan_graph(written, credits)))
    to.complain("PLAN-6: with room for {} on each link, {}", credits, circle);
}

void check_memory(const plan& x, const check_settings& by, check& to) {
  cost_model model;
  model.held = by.held;
  const auto seen = simulate(x, model);
  for (std::size_t r = 0; r < seen.ranks.size(); ++r) {
    const auto& rank = seen.ranks[r];
    // Sums of shares such as 1/3 may exceed their limit by rounding.
    const double limit = by.memory_limit * (1 + 1e-9);
    if (rank.peak_memory <= limit)
      continue;
    const auto over = std::find_if(
        rank.memory.begin(), rank.memory.end(), [&](const auto& at) { return at.second > limit; });
    const auto when = over == rank.memory.end() ? 0 : over->first;
    const auto what
        = std::find_if(rank.actions.begin(), rank.actions.end(), [&](const timed_action& a) {
            return a.begin == when && a.what.kind == action_kind::forward;
          });
    to.complain("PLAN-7: rank {} holds up to {:.6g}, and its limit is {:.6g}{}",
                r,
                rank.peak_memory,
                by.memory_limit,
                what == rank.actions.end()
                    ? ""
                    : fmt::format(": it is first above it at {}", to_string(what->what, x.copies)));
  }
}

}  // namespace

check_report check_plan(const plan& x, const check_settings& by) {
  check_report out;
  if (auto wrong = misfit(x); !wrong.empty()) {
    out.complaints.push_back("PLAN-1: " + wrong);
    return out;
  }
  check all(x, out.complaints);
  all.check_once();
  if (all.nothing_found()) {
    all.check_order_on_ranks();
    all.check_queues();
    all.check_reductions();
  }
  if (all.nothing_found())
    for (const auto& circle : circular_waits(all.graph()))
      all.complain("PLAN-3: {}", circle);
  if (all.nothing_found()) {
    if (by.credits > 0)
      check_credits(x, by.credits, all);
    if (by.memory_limit > 0)
      check_memory(x, by, all);
    out.notes = accumulation_notes(x);
  }
  all.count_the_rest();
  return out;
}

std::vector<std::string> check_handoffs(const plan& x, const handoff_credits& credits) {
  std::vector<std::string> out;
  for (const auto& circle : circular_waits(plan_graph(x, credits)))
    out.push_back("PLAN-6: with the credits of its hand-offs, " + circle);
  return out;
}

std::vector<std::string> validate(const plan& x) {
  return check_plan(x).complaints;
}

}  // namespace troupe::runtime
