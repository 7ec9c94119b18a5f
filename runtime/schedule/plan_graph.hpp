// The dependencies of a plan's actions. A node is the position of an action, counted through the
// rows. The checker, the simulator and lowering use these numbers.

#pragma once

#include "runtime/schedule/plan.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe::runtime {

struct handoff_credits;

constexpr bool is_transfer(action_kind k) {
  return k >= action_kind::send_activation && k <= action_kind::receive_gradient;
}
constexpr bool is_send(action_kind k) {
  return k == action_kind::send_activation || k == action_kind::send_gradient;
}
constexpr bool is_work(action_kind k) {
  return k < action_kind::send_activation;
}

/// True if the plan contains sends and receives. Otherwise each result for another rank is sent
/// implicitly.
bool has_transfers(const plan& x);

/// The reason why the sizes of a plan are inconsistent. Empty: a plan_graph can be made, with a
/// size in proportion to the actions.
std::string misfit(const plan& x);

/// The links between ranks. A link has a sender, a receiver, and carries activations or gradients.
class plan_links {
 public:
  static constexpr std::size_t none = SIZE_MAX;
  struct link {
    int from = 0, to = 0;
    bool gradients = false;

    friend bool operator==(const link&, const link&) = default;
    friend bool operator<(const link& a, const link& b) {
      return std::tie(a.from, a.to, a.gradients) < std::tie(b.from, b.to, b.gradients);
    }
  };

  /// Needs a plan without misfit.
  explicit plan_links(const plan& x);

  std::size_t size() const { return all_.size(); }
  const link& operator[](std::size_t i) const { return all_[i]; }
  /// The link of a send or receive within the plan's numbers; none: the transfer has no receiver,
  /// or stays on its rank.
  std::size_t of(const action& transfer) const;

 private:
  int chunks_;
  std::vector<link> all_;
  /// For each copy and chunk: the link to the next chunk, and to the previous one.
  std::vector<std::size_t> onward_, back_;
};

class plan_graph {
 public:
  using node = std::uint32_t;
  static constexpr node none = UINT32_MAX;

  struct need {
    node of = none;        ///< none: missing from the plan
    bool arrives = false;  ///< from another rank; add the transfer time
  };
  class needs {
   public:
    void add(node of, bool arrives = false) { all_[size_++] = {of, arrives}; }
    const need* begin() const { return all_.data(); }
    const need* end() const { return all_.data() + size_; }

   private:
    std::array<need, 4> all_ = {};
    std::size_t size_ = 0;
  };

  /// Needs a plan without misfit, which must outlive the graph. `credits`: maximum results on a
  /// link (sender, receiver, activations or gradients) before its receives take them; 0: unlimited.
  explicit plan_graph(const plan& x, int credits = 0);
  /// Needs a plan without sends: an action begins when its result has a credit (credits.hpp).
  plan_graph(const plan& x, const handoff_credits& credits);

  const plan& of() const { return plan_; }
  bool has_transfers() const { return transfers_; }
  node size() const { return first_.back(); }
  node row_begin(std::size_t rank) const { return first_[rank]; }
  node row_end(std::size_t rank) const { return first_[rank + 1]; }
  std::size_t rank_of(node n) const;
  const action& at(node n, std::size_t rank) const { return plan_.ranks[rank][n - first_[rank]]; }
  const action& at(node n) const { return at(n, rank_of(n)); }

  /// The nodes that must be done, or have arrived, before the action begins.
  needs needs_of(node n, std::size_t rank) const;
  /// True if the result is sent to another rank implicitly, or the action is a send.
  bool is_sent(const action& x) const;
  /// A result that is sent to another rank implicitly, between neighbouring chunks.
  struct handoff {
    std::size_t maker = 0;  ///< copy x chunks + chunk
    bool gradient = false;
  };
  std::optional<handoff> made_by(const action& x) const;
  std::optional<handoff> taken_by(const action& x) const;
  /// The node that returns at its end the credit that this node needs; or none.
  node credit_of(node n) const { return credit_.empty() ? none : credit_[n]; }
  /// True if the action's numbers are within the plan's.
  bool is_within(const action& x) const;
  /// Index of (copy, chunk, block, micro-batch); the action must be within the plan.
  std::size_t slot(const action& x) const {
    return slot(value(x.copy), value(x.chunk), x.block, value(x.microbatch));
  }
  std::size_t slots() const { return slots_; }
  int blocks_of(std::uint32_t chunk) const {
    return int(first_block_[chunk + 1] - first_block_[chunk]);
  }
  bool is_rebuilt(std::uint32_t chunk, int block) const {
    return !plan_.blocks.empty() && plan_.blocks[chunk][std::size_t(block)] != 0;
  }
  int rank_of(std::uint32_t copy, std::uint32_t chunk) const {
    return plan_.placement[copy * std::size_t(plan_.chunks) + chunk];
  }

 private:
  std::size_t slot(std::uint32_t copy, std::uint32_t chunk, int block, std::uint32_t m) const {
    return ((copy * std::size_t(first_block_.back()) + first_block_[chunk] + std::size_t(block))
            * std::size_t(each_))
           + m;
  }
  enum fact { forward, inputs, weights, rebuilt, sent_f, received_f, sent_b, received_b, facts };
  node maker(fact what, std::uint32_t copy, std::uint32_t chunk, int block, std::uint32_t m) const {
    const auto& of = made_[what];
    return of.empty() ? none : of[slot(copy, chunk, block, m)];
  }
  void add_backward_needs(const action& x, needs& out) const;
  void bound_links(int credits);

  const plan& plan_;
  bool transfers_;
  int each_;
  std::vector<node> first_;                 ///< per rank; then the total
  std::vector<std::uint32_t> first_block_;  ///< per chunk; then the total
  std::size_t slots_ = 0;
  std::array<std::vector<node>, facts> made_;  ///< by slot: the node that makes it
  std::vector<node> credit_;                   ///< by node; may be empty
};

/// Executes all rows as far as possible. Calls `visit(node, count, rank)` for an action, or for the
/// two of a pair, after all that it needs, each row in order. O(actions). Returns the next node of
/// each rank, or the end of its row.
template <class Visit>
std::vector<plan_graph::node> carry_out(const plan_graph& graph, Visit&& visit) {
  using node = plan_graph::node;
  const auto ranks = graph.of().ranks.size();
  std::vector<node> next(ranks), waits(graph.size(), plan_graph::none);
  std::vector<node> also_waits(ranks, plan_graph::none);  // a linked list of ranks for each node
  std::vector<char> done(graph.size());
  std::vector<std::size_t> runnable;
  for (std::size_t r = ranks; r-- > 0;) {
    next[r] = graph.row_begin(r);
    runnable.push_back(r);
  }
  const auto finish = [&](node n) {
    done[n] = 1;
    for (auto r = waits[n]; r != plan_graph::none; r = also_waits[r])
      runnable.push_back(r);
  };
  while (!runnable.empty()) {
    const auto r = runnable.back();
    runnable.pop_back();
    for (auto& n = next[r]; n < graph.row_end(r);) {
      const node count = graph.at(n, r).with_next && n + 1 < graph.row_end(r) ? 2 : 1;
      bool ready = true;
      for (node i = n; ready && i < n + count; ++i)
        for (const auto& need : graph.needs_of(i, r))
          if (need.of == plan_graph::none || !done[need.of]) {
            ready = false;
            if (need.of != plan_graph::none)
              also_waits[r] = std::exchange(waits[need.of], node(r));
            break;
          }
      if (!ready)
        break;
      visit(n, count, r);
      for (node i = n; i < n + count; ++i)
        finish(i);
      n += count;
    }
  }
  return next;
}

}  // namespace troupe::runtime
