#include "runtime/schedule/lower.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/plan_graph.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace troupe::runtime {
namespace {

bool goes_back(const action& x) {
  return x.kind == action_kind::backward || x.kind == action_kind::input_gradients;
}

bool adds_weights(const action& x) {
  return x.kind == action_kind::backward || x.kind == action_kind::weight_gradients;
}

action as(action x, action_kind kind) {
  x.kind = kind;
  x.with_next = false;
  return x;
}

action transfer(const action& x, action_kind kind) {
  auto out = as(x, kind);
  out.block = 0;
  return out;
}

class lowering {
 public:
  explicit lowering(const plan& x) : plan_(x), graph_(x), links_(x), order_(links_.size()) {
    for (auto* of : {&place_f_, &place_b_})
      of->assign(graph_.slots(), SIZE_MAX);
    for (const auto& row : x.ranks)
      for (const auto& a : row)
        if (const auto sent = sends(a)) {
          auto& queue = order_[links_.of(*sent)];
          queue.push_back(at_the_other_end(*sent));
          place(queue.back()) = queue.size() - 1;
        }
    reduces_ = x.training;
    for (const auto& row : x.ranks)
      for (const auto& a : row)
        reduces_ = reduces_ && a.kind != action_kind::reduce_gradients;
  }

  std::vector<action> row(const std::vector<action>& of) {
    std::vector<action> out;
    out.reserve(of.size() * 2);
    std::vector<std::size_t> received(links_.size());
    std::vector<std::size_t> left(std::size_t(plan_.copies) * std::size_t(plan_.chunks));
    for (const auto& a : of)
      left[owner(a)] += adds_weights(a) ? 1 : 0;

    for (std::size_t i = 0; i < of.size();) {
      const std::size_t count = of[i].with_next && i + 1 < of.size() ? 2 : 1;
      for (auto j = i; j < i + count; ++j)
        receive_for(of[j], received, out);
      if (count == 2)
        out.insert(out.end(), {of[i], of[i + 1]});
      for (auto j = i; j < i + count; ++j)
        do_and_send(of[j], count == 2, out);
      for (auto j = i; j < i + count; ++j)
        if (adds_weights(of[j]) && --left[owner(of[j])] == 0 && reduces_)
          out.push_back({action_kind::reduce_gradients, of[j].chunk, {}, 0, of[j].copy});
      i += count;
    }
    return out;
  }

 private:
  std::size_t owner(const action& x) const {
    return value(x.copy) * std::size_t(plan_.chunks) + value(x.chunk);
  }

  std::optional<action> over_a_link(const action& x) const {
    return links_.of(x) == plan_links::none ? std::nullopt : std::optional(x);
  }
  std::optional<action> sends(const action& x) const {
    if (x.kind == action_kind::forward)
      return over_a_link(transfer(x, action_kind::send_activation));
    if (goes_back(x) && x.block == 0)
      return over_a_link(transfer(x, action_kind::send_gradient));
    return std::nullopt;
  }
  std::optional<action> receives(const action& x) const {
    if (x.kind == action_kind::forward)
      return over_a_link(transfer(x, action_kind::receive_activation));
    if (goes_back(x) && x.block + 1 == graph_.blocks_of(value(x.chunk)))
      return over_a_link(transfer(x, action_kind::receive_gradient));
    return std::nullopt;
  }
  static action at_the_other_end(action sent) {
    const bool onward = sent.kind == action_kind::send_activation;
    sent.kind = onward ? action_kind::receive_activation : action_kind::receive_gradient;
    sent.chunk = chunk_id(onward ? value(sent.chunk) + 1 : value(sent.chunk) - 1);
    return sent;
  }
  std::size_t& place(const action& receive) {
    return (receive.kind == action_kind::receive_activation ? place_f_
                                                            : place_b_)[graph_.slot(receive)];
  }

  /// Earlier sends on the link arrive earlier, so receiving them first delays nothing.
  void receive_for(const action& x, std::vector<std::size_t>& received, std::vector<action>& out) {
    const auto wanted = receives(x);
    if (!wanted)
      return;
    const auto link = links_.of(*wanted);
    const auto at = place(*wanted);
    ensure(at != SIZE_MAX, "LOWER-1: only a sound plan is lowered: inputs of actions are sent");
    for (auto& next = received[link]; next <= at; ++next)
      out.push_back(order_[link][next]);
  }

  void do_and_send(const action& x, bool paired, std::vector<action>& out) {
    const bool split = !paired && x.kind == action_kind::backward;
    if (!paired)
      out.push_back(split ? as(x, action_kind::input_gradients) : x);
    if (const auto sent = sends(x))
      out.push_back(*sent);
    if (split)
      out.push_back(as(x, action_kind::weight_gradients));
  }

  const plan& plan_;
  plan_graph graph_;
  plan_links links_;
  bool reduces_ = true;
  std::vector<std::vector<action>> order_;  ///< per link: its receives, in the order of the sends
  /// By slot of a receive: its position in that order.
  std::vector<std::size_t> place_f_, place_b_;
};

}  // namespace

plan lowered(const plan& x) {
  ensure(misfit(x).empty(), "LOWER-1: only a sound plan is lowered: its sizes fit");
  if (has_transfers(x))
    return x;
  const plan_graph graph(x);
  for (const auto& row : x.ranks)
    ensure(std::all_of(row.begin(), row.end(), [&](const action& a) { return graph.is_within(a); }),
           "LOWER-1: only a sound plan is lowered: its actions belong to its chunks");
  lowering with_transfers(x);
  auto out = x;
  for (std::size_t r = 0; r < x.ranks.size(); ++r)
    out.ranks[r] = with_transfers.row(x.ranks[r]);
  return out;
}

std::vector<action> with_split_backward(const std::vector<action>& row) {
  std::vector<action> out;
  out.reserve(row.size() * 3 / 2);
  std::optional<action> later;  // W of a pair that begins with B
  for (const auto& a : row) {
    const auto weights = std::exchange(later, std::nullopt);
    out.push_back(a);
    if (a.kind == action_kind::backward) {
      out.back().kind = action_kind::input_gradients;
      (a.with_next ? later.emplace() : out.emplace_back()) = as(a, action_kind::weight_gradients);
    }
    if (weights)
      out.push_back(*weights);
  }
  return out;
}

}  // namespace troupe::runtime
