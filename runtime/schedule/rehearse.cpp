#include "runtime/core/error.hpp"
#include "runtime/schedule/behaviour.hpp"

#include <algorithm>
#include <fmt/ranges.h>
#include <queue>
#include <utility>

namespace troupe::runtime {
namespace {

plan frame_of(const behaviour_factory& factory, int ranks, int microbatches) {
  if (ranks < 1 || microbatches < 1 || factory.chunks_per_rank < 1)
    throw input_error(
        "{}: {} ranks, {} chunks on each and {} micro-batches: each must be 1 or more",
        factory.name,
        ranks,
        factory.chunks_per_rank,
        microbatches);
  plan out;
  out.name = factory.name;
  out.chunks = ranks * factory.chunks_per_rank;
  out.microbatches = microbatches;
  out.placement = factory.placement ? factory.placement(ranks, out.chunks)
                                    : placed_in_turn(ranks, factory.chunks_per_rank);
  out.ranks.resize(std::size_t(ranks));
  if (int(out.placement.size()) != out.chunks)
    throw input_error("{}: its placement names the ranks of {} stages, but there are {}",
                      factory.name,
                      out.placement.size(),
                      out.chunks);
  for (int c = 0; c < out.chunks; ++c)
    if (const int r = out.placement[std::size_t(c)]; r < 0 || r >= ranks)
      throw input_error("{}: its placement puts stage {} on rank {}, but there are ranks 0 to {}",
                        factory.name,
                        c,
                        r,
                        ranks - 1);
  return out;
}

/// An arrival at a rank, or the end of its action.
struct event {
  double at = 0;
  std::uint64_t number = 0;  ///< order of events at the same time
  int rank = 0;
  bool ends = false;
  action what = {};  ///< the ended action, or the source of the arrival

  bool operator>(const event& other) const {
    return at != other.at ? at > other.at : number > other.number;
  }
};

class rehearsal {
 public:
  rehearsal(const behaviour_factory& factory,
            int ranks,
            int microbatches,
            const cost_model& by,
            int credits)
      : plan_(frame_of(factory, ranks, microbatches)), costs_(by), bounded_(credits > 0) {
    ensure(by.costs.size() == 1 || int(by.costs.size()) == plan_.chunks,
           "REHEARSE-1: costs are given per chunk, or once for all");
    const std::vector<int> everywhere(plan_.placement.size(), credits);
    for (int r = 0; r < ranks; ++r) {
      auto& one = ranks_.emplace_back(plan_, r);
      if (bounded_)
        one.book.bound({everywhere, everywhere});
      one.decides = guarded(r, [&] { return factory.make(r, ranks, plan_.chunks, microbatches); });
    }
  }

  plan run() {
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      ask(r, 0);
    while (!events_.empty()) {
      // Sums of times in different orders differ in the last digits: treat these times as equal.
      const double now = events_.top().at, last = now + 1e-12 * now;
      while (!events_.empty() && events_.top().at <= last) {
        take(events_.top());
        events_.pop();
      }
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        if (std::exchange(ranks_[r].something_new, false) && !ranks_[r].busy)
          ask(r, now);
    }
    if (!std::all_of(ranks_.begin(), ranks_.end(), [](auto& r) { return r.book.is_complete(); }))
      throw input_error("{}", who_waits());
    return std::move(plan_);
  }

 private:
  struct rank_state {
    rank_state(const plan& frame, int rank) : book(frame, rank) {}

    stage_book book;
    std::unique_ptr<behaviour> decides = {};
    bool busy = false, something_new = false;
    double queue_free[2] = {0, 0};
  };

  template <class Call>
  auto guarded(int rank, Call&& call) -> decltype(call()) {
    return ask_behaviour(plan_.name, rank, int(plan_.ranks.size()), call);
  }

  void ask(std::size_t r, double now) {
    auto& one = ranks_[r];
    if (one.book.is_complete())
      return;
    const auto& view = one.book.view();
    if (view.ready.empty())
      return;
    const auto answer = guarded(int(r), [&] { return one.decides->next(view); });
    if (!answer)
      return;
    one.book.choose(*answer, plan_.name);
    plan_.ranks[r].push_back(*answer);
    const auto& cost = costs_.cost_of(answer->chunk);
    const double takes = answer->kind == action_kind::forward           ? cost.forward
                         : answer->kind == action_kind::input_gradients ? cost.input_gradients
                                                                        : cost.weight_gradients;
    one.busy = true;
    events_.push({now + costs_.overhead + takes, count_++, int(r), true, *answer});
  }

  void take(const event& e) {
    auto& one = ranks_[std::size_t(e.rank)];
    one.something_new = true;
    const auto& x = e.what;
    if (!e.ends) {
      if (x.kind == action_kind::forward)
        one.book.arrive_activation(next(x.chunk), x.microbatch);
      else
        one.book.arrive_gradient(chunk_id(value(x.chunk) - 1), x.microbatch);
      return;
    }
    one.busy = false;
    if (x.kind == action_kind::weight_gradients)
      return;
    const bool forward = x.kind == action_kind::forward;
    give_back(e.rank, int(value(x.chunk)) + (forward ? -1 : 1), !forward);
    const int to = int(value(x.chunk)) + (forward ? 1 : -1);
    if (to < 0 || to == plan_.chunks)
      return;
    const int receiver = plan_.rank_of(chunk_id(to));
    if (receiver == e.rank)
      return;
    double begin = e.at;
    if (costs_.queues > 0) {
      auto& free = one.queue_free[costs_.queues == 2 && !forward];
      begin = std::max(begin, free);
      free = begin + costs_.transfer;
    }
    events_.push({begin + costs_.transfer, count_++, receiver, false, x});
  }

  /// The rank has taken a result of that chunk.
  void give_back(int rank, int maker, bool gradient) {
    if (!bounded_ || maker < 0 || maker == plan_.chunks)
      return;
    const int home = plan_.rank_of(chunk_id(maker));
    if (home == rank)
      return;
    auto& from = ranks_[std::size_t(home)];
    from.book.give_back(chunk_id(maker), gradient);
    from.something_new = true;
  }

  int on(const action& x) const { return plan_.rank_of(x.chunk); }

  /// "0F4 0I1", or "nothing".
  static std::string list(const std::vector<action>& all) {
    std::vector<std::string> out;
    for (const auto& x : all)
      out.push_back(to_string(x));
    return out.empty() ? "nothing" : fmt::format("{}", fmt::join(out, " "));
  }

  std::string who_waits() {
    static constexpr std::size_t shown = 16;
    std::size_t done = 0;
    for (const auto& row : plan_.ranks)
      done += row.size();
    auto out = fmt::format("{}: all ranks wait, after {} of {} actions",
                           plan_.name,
                           done,
                           3 * std::size_t(plan_.chunks) * std::size_t(plan_.microbatches));
    for (std::size_t r = 0; r < std::min(ranks_.size(), shown); ++r)
      out += "\n  " + how_it_stands(r);
    if (ranks_.size() > shown)
      out += fmt::format("\n  and {} ranks more", ranks_.size() - shown);
    return out + "\n  " + cycle();
  }

  std::string how_it_stands(std::size_t r) {
    auto& book = ranks_[r].book;
    if (book.is_complete())
      return fmt::format("rank {} has done everything", r);
    const auto& view = book.view();
    stage_view::done sum;
    for (const auto& one : view.finished) {
      sum.forward += one.forward;
      sum.input_gradients += one.input_gradients;
      sum.weight_gradients += one.weight_gradients;
    }
    auto out = fmt::format("rank {} has chosen {} F, {} I, {} W",
                           r,
                           sum.forward,
                           sum.input_gradients,
                           sum.weight_gradients);
    if (!view.ready.empty())
      out += fmt::format("; although {} {} ready, its behaviour chooses nothing",
                         list(view.ready),
                         view.ready.size() == 1 ? "is" : "are");
    return out + "; it can still get " + list(book.awaited());
  }

  /// Follows from each rank the actions that it awaits, until a rank occurs twice. A rank that
  /// awaits no action is itself the cause.
  std::string cycle() {
    std::vector<char> seen(ranks_.size());
    for (std::size_t start = 0; start < ranks_.size(); ++start) {
      std::vector<std::size_t> path;
      std::vector<action> needed;
      if (const auto found = follow(start, seen, path, needed))
        return describe({path.begin() + std::ptrdiff_t(*found), path.end()},
                        {needed.begin() + std::ptrdiff_t(*found), needed.end()});
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (!ranks_[r].book.is_complete() && ranks_[r].book.awaited().empty())
        return fmt::format(
            "rank {} blocks all others: nothing more can arrive there, so its behaviour must "
            "choose {}",
            r,
            list(ranks_[r].book.view().ready));
    return "";
  }

  /// Depth-first search. Returns the position on the path where the cycle begins.
  std::optional<std::size_t> follow(std::size_t r,
                                    std::vector<char>& seen,
                                    std::vector<std::size_t>& path,
                                    std::vector<action>& needed) {
    if (const auto met = std::find(path.begin(), path.end(), r); met != path.end())
      return std::size_t(met - path.begin());
    if (seen[r])
      return {};
    seen[r] = 1;
    path.push_back(r);
    for (const auto& x : ranks_[r].book.awaited()) {
      needed.push_back(x);
      if (const auto found = follow(std::size_t(on(x)), seen, path, needed))
        return found;
      needed.pop_back();
    }
    path.pop_back();
    return {};
  }

  std::string describe(const std::vector<std::size_t>& path, const std::vector<action>& needed) {
    auto out = fmt::format("the cycle: rank {}", path.front());
    for (std::size_t i = 0; i < path.size(); ++i) {
      const auto& x = needed[i];
      const auto& ready = ranks_[std::size_t(on(x))].book.view().ready;
      const bool refused = std::find(ready.begin(), ready.end(), x) != ready.end();
      out += fmt::format(" waits for {} of rank {}{}{}",
                         to_string(x),
                         on(x),
                         refused ? " (ready there, but not chosen)" : "",
                         i + 1 < path.size() ? ", which" : "");
    }
    return out;
  }

  plan plan_;
  const cost_model& costs_;
  bool bounded_;
  std::vector<rank_state> ranks_;
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  std::uint64_t count_ = 0;
};

}  // namespace

plan rehearse(const behaviour_factory& factory,
              int ranks,
              int microbatches,
              const cost_model& by,
              int credits) {
  return rehearsal(factory, ranks, microbatches, by, credits).run();
}

}  // namespace troupe::runtime
