#include "runtime/schedule/plan_graph.hpp"

#include "runtime/schedule/credits.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::runtime {

bool has_transfers(const plan& x) {
  return std::any_of(x.ranks.begin(), x.ranks.end(), [](const auto& row) {
    return std::any_of(row.begin(), row.end(), [](const action& a) { return is_transfer(a.kind); });
  });
}

std::string misfit(const plan& x) {
  if (x.chunks < 1 || x.microbatches < 1 || x.copies < 1)
    return fmt::format(
        "a plan has at least one stage, one micro-batch and one copy, not {}, {}, {}",
        x.chunks,
        x.microbatches,
        x.copies);
  if (x.microbatches % x.copies != 0)
    return fmt::format("{} micro-batches cannot be shared equally by {} copies of the model",
                       x.microbatches,
                       x.copies);
  if (x.placement.size() != std::size_t(x.chunks) * std::size_t(x.copies))
    return fmt::format("every stage has a rank: {} stages, {} placed",
                       std::size_t(x.chunks) * std::size_t(x.copies),
                       x.placement.size());
  for (std::size_t i = 0; i < x.placement.size(); ++i)
    if (x.placement[i] < 0 || std::size_t(x.placement[i]) >= x.ranks.size())
      return fmt::format("stage {} is on rank {}, but there are {} ranks",
                         i % std::size_t(x.chunks),
                         x.placement[i],
                         x.ranks.size());
  if (!x.blocks.empty() && x.blocks.size() != std::size_t(x.chunks))
    return fmt::format("{} stages, but blocks of {}", x.chunks, x.blocks.size());
  if (std::any_of(x.blocks.begin(), x.blocks.end(), [](const auto& of) { return of.empty(); }))
    return "every stage has a block";
  std::size_t actions = 0, needed = 0;
  for (const auto& row : x.ranks)
    actions += row.size();
  for (int c = 0; c < x.chunks; ++c)
    needed += x.blocks.empty() ? 1 : x.blocks[std::size_t(c)].size();
  needed *= std::size_t(x.microbatches);
  // Only guards against absurd sizes; the checker counts and names missing actions.
  if (needed > 16 * actions + 100'000)
    return fmt::format(
        "{} stages and {} micro-batches are {} forwards, but the plan has {} actions",
        x.chunks,
        x.microbatches,
        std::size_t(x.chunks) * std::size_t(x.microbatches),
        actions);
  return "";
}

plan_graph::plan_graph(const plan& x, int credits)
    : plan_(x), transfers_(runtime::has_transfers(x)), each_(x.microbatches_each()) {
  first_.push_back(0);
  for (const auto& row : x.ranks)
    first_.push_back(first_.back() + node(row.size()));
  first_block_.push_back(0);
  for (int c = 0; c < x.chunks; ++c)
    first_block_.push_back(
        first_block_.back()
        + (x.blocks.empty() ? 1U : std::uint32_t(x.blocks[std::size_t(c)].size())));
  slots_ = std::size_t(x.copies) * first_block_.back() * std::size_t(each_);
  for (const auto what : {forward, inputs, weights})
    made_[what].assign(slots_, none);
  if (!x.blocks.empty())
    made_[rebuilt].assign(slots_, none);
  if (transfers_)
    for (const auto what : {sent_f, received_f, sent_b, received_b})
      made_[what].assign(slots_, none);
  node n = 0;
  for (const auto& row : x.ranks)
    for (const auto& a : row) {
      const auto put = [&](fact what) {
        if (!made_[what].empty() && is_within(a))
          made_[what][slot(a)] = n;
      };
      switch (a.kind) {
        case action_kind::forward:
          put(forward);
          break;
        case action_kind::backward:
          put(inputs), put(weights);
          break;
        case action_kind::input_gradients:
          put(inputs);
          break;
        case action_kind::weight_gradients:
          put(weights);
          break;
        case action_kind::recompute:
          put(rebuilt);
          break;
        case action_kind::send_activation:
          put(sent_f);
          break;
        case action_kind::receive_activation:
          put(received_f);
          break;
        case action_kind::send_gradient:
          put(sent_b);
          break;
        case action_kind::receive_gradient:
          put(received_b);
          break;
        case action_kind::reduce_gradients:
          break;
      }
      ++n;
    }
  if (credits > 0 && transfers_)
    bound_links(credits);
}

void plan_graph::bound_links(int credits) {
  credit_.assign(size(), none);
  const plan_links links(plan_);
  std::vector<std::vector<node>> received(links.size());
  std::vector<std::size_t> sent(links.size());
  const auto over = [&](bool sends, auto&& each) {
    for (std::size_t r = 0; r < plan_.ranks.size(); ++r)
      for (node n = first_[r]; n < first_[r + 1]; ++n)
        if (const auto& a = at(n, r);
            is_transfer(a.kind) && is_send(a.kind) == sends && is_within(a))
          if (const auto on = links.of(a); on != plan_links::none)
            each(n, on);
  };
  over(false, [&](node n, std::size_t on) { received[on].push_back(n); });
  over(true, [&](node n, std::size_t on) {
    const auto k = sent[on]++;
    if (k >= std::size_t(credits) && k - std::size_t(credits) < received[on].size())
      credit_[n] = received[on][k - std::size_t(credits)];
  });
}

// Valid in any order of arrival: a receiver takes the same number of results in its own order.
plan_graph::plan_graph(const plan& x, const handoff_credits& credits) : plan_graph(x) {
  credit_.assign(size(), none);
  std::vector<std::vector<node>> taken[2];
  for (auto& by_maker : taken)
    by_maker.resize(x.placement.size());
  for (std::size_t r = 0; r < x.ranks.size(); ++r)
    for (node n = row_begin(r); n < row_end(r); ++n)
      if (const auto which = taken_by(at(n, r)))
        taken[which->gradient][which->maker].push_back(n);
  std::vector<std::size_t> made[2];
  for (auto& by_maker : made)
    by_maker.resize(x.placement.size());
  for (std::size_t r = 0; r < x.ranks.size(); ++r)
    for (node n = row_begin(r); n < row_end(r); ++n)
      if (const auto which = made_by(at(n, r))) {
        const auto& all = which->gradient ? credits.gradients : credits.activations;
        const auto room = std::size_t(all[which->maker]);
        const auto k = made[which->gradient][which->maker]++;
        const auto& by = taken[which->gradient][which->maker];
        if (k >= room && k - room < by.size())
          credit_[n] = by[k - room];
      }
}

std::optional<plan_graph::handoff> plan_graph::made_by(const action& x) const {
  if (!is_work(x.kind) || !is_sent(x))
    return std::nullopt;
  return handoff{value(x.copy) * std::size_t(plan_.chunks) + value(x.chunk),
                 x.kind != action_kind::forward};
}

std::optional<plan_graph::handoff> plan_graph::taken_by(const action& x) const {
  if (transfers_ || !is_within(x))
    return std::nullopt;
  const auto k = value(x.copy), c = value(x.chunk);
  const auto of = [&](std::uint32_t maker, bool gradient) -> std::optional<handoff> {
    if (rank_of(k, maker) == rank_of(k, c))
      return std::nullopt;
    return handoff{k * std::size_t(plan_.chunks) + maker, gradient};
  };
  switch (x.kind) {
    case action_kind::forward:
      return c > 0 ? of(c - 1, false) : std::nullopt;
    case action_kind::backward:
    case action_kind::input_gradients:
      return x.block + 1 == blocks_of(c) && c + 1 < std::uint32_t(plan_.chunks) ? of(c + 1, true)
                                                                                : std::nullopt;
    default:
      return std::nullopt;
  }
}

plan_links::plan_links(const plan& x) : chunks_(x.chunks) {
  const auto for_boundaries = [&](auto&& each) {
    for (int k = 0; k < x.copies; ++k)
      for (int c = 0; c + 1 < x.chunks; ++c) {
        const auto low = std::size_t(k) * std::size_t(x.chunks) + std::size_t(c);
        if (x.placement[low] != x.placement[low + 1])
          each(low, x.placement[low], x.placement[low + 1]);
      }
  };
  for_boundaries([&](std::size_t, int low, int high) {
    all_.push_back({low, high, false});
    all_.push_back({high, low, true});
  });
  std::sort(all_.begin(), all_.end());
  all_.erase(std::unique(all_.begin(), all_.end()), all_.end());
  onward_.assign(x.placement.size(), none);
  back_.assign(x.placement.size(), none);
  const auto find = [&](const link& what) {
    return std::size_t(std::lower_bound(all_.begin(), all_.end(), what) - all_.begin());
  };
  for_boundaries([&](std::size_t at, int low, int high) {
    onward_[at] = find({low, high, false});
    back_[at + 1] = find({high, low, true});
  });
}

std::size_t plan_links::of(const action& x) const {
  const auto at = value(x.copy) * std::size_t(chunks_) + value(x.chunk);
  switch (x.kind) {
    case action_kind::send_activation:
      return onward_[at];
    case action_kind::send_gradient:
      return back_[at];
    case action_kind::receive_activation:
      return value(x.chunk) == 0 ? none : onward_[at - 1];
    case action_kind::receive_gradient:
      return int(value(x.chunk)) + 1 == chunks_ ? none : back_[at + 1];
    default:
      return none;
  }
}

std::size_t plan_graph::rank_of(node n) const {
  return std::size_t(std::upper_bound(first_.begin(), first_.end(), n) - first_.begin()) - 1;
}

bool plan_graph::is_within(const action& x) const {
  return value(x.copy) < std::uint32_t(plan_.copies) && value(x.chunk) < std::uint32_t(plan_.chunks)
         && value(x.microbatch) < std::uint32_t(each_) && int(x.block) < blocks_of(value(x.chunk));
}

void plan_graph::add_backward_needs(const action& x, needs& out) const {
  const auto k = value(x.copy), c = value(x.chunk), m = value(x.microbatch);
  out.add(maker(forward, k, c, 0, m));
  if (is_rebuilt(c, x.block))
    out.add(maker(rebuilt, k, c, x.block, m));
  if (x.block + 1 < blocks_of(c))
    out.add(maker(inputs, k, c, x.block + 1, m));
  else if (c + 1 < std::uint32_t(plan_.chunks)) {
    const bool far = rank_of(k, c) != rank_of(k, c + 1);
    if (far && transfers_)
      out.add(maker(received_b, k, c, 0, m));
    else
      out.add(maker(inputs, k, c + 1, 0, m), far);
  }
}

plan_graph::needs plan_graph::needs_of(node n, std::size_t rank) const {
  const auto& x = at(n, rank);
  needs out;
  if (!is_within(x))
    return out;
  const auto k = value(x.copy), c = value(x.chunk), m = value(x.microbatch);
  const auto last = std::uint32_t(plan_.chunks - 1);
  switch (x.kind) {
    case action_kind::forward:
      if (c > 0) {
        const bool far = rank_of(k, c) != rank_of(k, c - 1);
        if (far && transfers_)
          out.add(maker(received_f, k, c, 0, m));
        else
          out.add(maker(forward, k, c - 1, 0, m), far);
      }
      break;
    case action_kind::recompute:
      out.add(maker(forward, k, c, 0, m));
      break;
    case action_kind::backward:
    case action_kind::input_gradients:
      add_backward_needs(x, out);
      break;
    case action_kind::weight_gradients:
      out.add(maker(inputs, k, c, x.block, m));
      break;
    case action_kind::send_activation:
      out.add(maker(forward, k, c, 0, m));
      break;
    case action_kind::send_gradient:
      out.add(maker(inputs, k, c, 0, m));
      break;
    case action_kind::receive_activation:
      if (c > 0)
        out.add(maker(sent_f, k, c - 1, 0, m), true);
      break;
    case action_kind::receive_gradient:
      if (c < last)
        out.add(maker(sent_b, k, c + 1, 0, m), true);
      break;
    case action_kind::reduce_gradients:
      break;
  }
  if (credit_of(n) != none)
    out.add(credit_of(n));
  return out;
}

bool plan_graph::is_sent(const action& x) const {
  if (is_send(x.kind))
    return true;
  if (transfers_ || x.block != 0 || !is_within(x))
    return false;
  const auto k = value(x.copy), c = value(x.chunk);
  switch (x.kind) {
    case action_kind::forward:
      return c + 1 < std::uint32_t(plan_.chunks) && rank_of(k, c) != rank_of(k, c + 1);
    case action_kind::backward:
    case action_kind::input_gradients:
      return c > 0 && rank_of(k, c) != rank_of(k, c - 1);
    default:
      return false;
  }
}

}  // namespace troupe::runtime
