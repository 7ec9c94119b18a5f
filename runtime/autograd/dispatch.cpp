#include "runtime/autograd/dispatch.hpp"

#include "runtime/autograd/parts.hpp"
#include "runtime/collective/offsets.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace troupe::runtime {
namespace {

using ends = std::vector<std::int64_t>;
using shared_plan = std::shared_ptr<const row_exchange>;

void ensure_choice(bool kept) {
  ensure(kept, "EXPERTS-1: rows choose experts of the layer, which all expert ranks share equally");
}

ends times(const ends& x, std::int64_t factor) {
  auto out = x;
  for (auto& end : out)
    end *= factor;
  return out;
}

void append(ends& to, std::int64_t n) {
  to.push_back((to.empty() ? 0 : to.back()) + n);
}

std::int64_t bytes_of_row(const tensor& x) {
  return channels_of(x) * std::int64_t(size_of(x.type()));
}

/// Rows like those of x.
tensor empty_rows(tape& tape, const tensor& x, std::int64_t rows) {
  return {tape.stream().allocate(std::size_t(rows * bytes_of_row(x))),
          x.type(),
          {rows, channels_of(x)}};
}

/// The values of all ranks along an axis, on the host.
std::vector<std::int32_t> of_all(tape& tape,
                                 axis along,
                                 const std::vector<std::int32_t>& mine,
                                 const ends& of_ranks) {
  if (tape.group_size(along) == 1)
    return mine;
  auto& stream = tape.stream();
  const auto from = uploaded(stream, mine, {std::int64_t(mine.size())});
  auto to = tensor::empty<std::int32_t>(stream, {of_ranks.back()});
  tape.group(along).all_gather(stream, from.raw(), to.raw(), times(of_ranks, sizeof(std::int32_t)));
  auto out = elements_of<std::int32_t>(stream, to);
  tape.group(along).check();
  return out;
}

/// What each source sends: (ETP, EP, E) rows for each expert, and (EP) rows of the sources with
/// this expert tensor rank, as ends.
struct all_counts {
  std::vector<std::int64_t> of_experts;
  ends of_sources;
};

all_counts counts_of_all(tape& tape, const expert_choice& x, std::int64_t R) {
  const auto E = std::size_t(x.experts);
  std::vector<std::int32_t> all(E);
  for (const auto e : x.chosen)
    if (e >= 0)
      ++all[std::size_t(e)];
  for (auto& n : all)
    n = std::max(n, std::int32_t(x.padded));
  all.push_back(std::int32_t(R));
  for (const auto along : {axis::expert, axis::expert_tensor}) {
    const int size = tape.group_size(along);
    all = of_all(tape, along, all, equal_ends(std::int64_t(all.size()) * size, size));
  }
  all_counts out;
  const auto EP = std::size_t(tape.group_size(axis::expert));
  const auto first = std::size_t(tape.rank(axis::expert_tensor)) * EP;
  for (std::size_t s = 0; s < all.size() / (E + 1); ++s) {
    const auto of_source = std::span(all).subspan(s * (E + 1), E + 1);
    out.of_experts.insert(out.of_experts.end(), of_source.begin(), of_source.end() - 1);
    if (s >= first && s < first + EP)
      append(out.of_sources, of_source.back());
  }
  return out;
}

/// Counts (ETP, EP, E) as if each source sent this rank `load` times its part of the rows.
std::vector<std::int64_t> loaded_counts(tape& tape,
                                        const expert_choice& x,
                                        std::int64_t R,
                                        double load) {
  const std::int64_t EP = tape.group_size(axis::expert), own = x.experts / EP;
  const auto part = std::int64_t(std::ceil(load * double(R * x.each) / double(EP)));
  const auto sent = std::min(part, R * std::min(x.each, own));
  std::vector<std::int64_t> of_source(std::size_t(x.experts));
  for (std::int64_t e = 0; e < own; ++e)
    of_source[std::size_t(tape.rank(axis::expert) * own + e)]
        = std::max((sent + own - 1 - e) / own, x.padded);
  std::vector<std::int64_t> out;
  for (std::int64_t s = 0; s < tape.group_size(axis::expert_tensor) * EP; ++s)
    out.insert(out.end(), of_source.begin(), of_source.end());
  return out;
}

/// Appends the numbers of the entries that chose one of the experts from `first` on, by expert. An
/// expert has `counts` of them; -1 fills the rest. Entries are numbered from `number`.
void append_rows(std::vector<std::int32_t>& to,
                 std::span<const std::int32_t> chosen,
                 std::int64_t first,
                 std::span<const std::int64_t> counts,
                 std::int64_t number) {
  std::vector<std::size_t> next;
  auto end = to.size();
  for (const auto n : counts) {
    next.push_back(end);
    end += std::size_t(n);
  }
  to.resize(end, -1);
  for (std::size_t i = 0; i < chosen.size(); ++i)
    if (const auto e = chosen[i] - first; e >= 0 && e < std::int64_t(counts.size()))
      to[next[std::size_t(e)]++] = std::int32_t(number + std::int64_t(i));
}

axis_rank rank_along(const tape& tape, axis along) {
  return {tape.rank(along), tape.group_size(along)};
}

/// The tensors of the plan.
void place_rows(tape& tape,
                const expert_choice& x,
                std::int64_t R,
                const all_counts& counts,
                bool gathers_rows,
                row_exchange& out) {
  auto& stream = tape.stream();
  const auto at = rank_along(tape, axis::expert);
  const auto of_source = [&](int s) {
    const auto index = std::size_t(tape.rank(axis::expert_tensor) * at.size + s);
    return std::span(counts.of_experts)
        .subspan(index * std::size_t(x.experts), std::size_t(x.experts));
  };
  std::vector<std::int32_t> place, slot(x.chosen.size(), -1), taken;
  append_rows(place, x.chosen, 0, of_source(at.rank), 0);
  for (std::size_t s = 0; s < place.size(); ++s)
    if (place[s] >= 0)
      slot[std::size_t(place[s])] = std::int32_t(s);
  out.sent = {uploaded(stream, place, {std::int64_t(place.size())}),
              uploaded(stream, slot, {R, x.each})};
  if (!gathers_rows)
    return;
  out.source_ends = counts.of_sources;
  const auto entries = times(counts.of_sources, x.each);
  const auto chosen = of_all(tape, axis::expert, x.chosen, entries);
  const auto own = std::size_t(x.experts / at.size);
  for (int s = 0; s < at.size; ++s) {
    const auto begin = begin_of(entries, s);
    append_rows(taken,
                std::span(chosen).subspan(std::size_t(begin), std::size_t(size_of_cut(entries, s))),
                at.rank * std::int64_t(own),
                of_source(s).subspan(std::size_t(at.rank) * own, own),
                begin);
  }
  out.taken = uploaded(stream, taken, {std::int64_t(taken.size())});
}

/// The same tensors with a shadow pool.
void allocate(
    tape& tape, const expert_choice& x, std::int64_t R, bool gathers_rows, row_exchange& out) {
  const auto integers
      = [&](shape extents) { return tensor::empty<std::int32_t>(tape.stream(), extents); };
  const int EP = tape.group_size(axis::expert);
  if (EP > 1)  // this rank sends what it has, whatever it receives
    out.sent_ends.back() = std::max(R * x.each, x.padded * x.experts);
  out.sent = {integers({out.sent_ends.back()}), integers({R, x.each})};
  if (gathers_rows) {
    out.taken = integers({out.received_ends.back()});
    out.source_ends = equal_ends(R * EP, EP);
  }
}

/// Sends the rows of x to the other expert ranks.
tensor exchanged(tape& tape, const tensor& x, const ends& from, const ends& to) {
  if (tape.group_size(axis::expert) == 1)
    return x;
  auto y = empty_rows(tape, x, to.back());
  tape.group(axis::expert)
      .all_to_all(tape.stream(),
                  x.raw(),
                  times(from, bytes_of_row(x)),
                  y.raw(),
                  times(to, bytes_of_row(x)));
  return y;
}

bool gathers(const row_exchange& by) {
  return !by.source_ends.empty();
}

/// All sources' rows.
tensor of_all_sources(tape& tape, const tensor& x, const row_exchange& by) {
  auto all = empty_rows(tape, x, by.source_ends.back());
  tape.group(axis::expert)
      .all_gather(tape.stream(), x.raw(), all.raw(), times(by.source_ends, bytes_of_row(x)));
  return all;
}

/// The rows of x, or single elements: one for each slot of a row.
variable sent(tape& tape, const variable& x, bool elements, const shared_plan& by) {
  auto slots = by->sent;
  if (elements)
    slots.slot = slots.slot.view({slots.slot.size(), 1});
  const auto C = elements ? 1 : channels_of(x.data);
  ensure_entries(x.data.size() == slots.slot.extents()[0] * C);
  const auto rows = [C](const tensor& all) { return all.view({all.size() / C, C}); };
  auto y = gathers(*by)
               ? permuted(tape, rows(of_all_sources(tape, x.data, *by)), {by->taken, slots.slot})
               : exchanged(
                   tape, permuted(tape, rows(x.data), slots), by->sent_ends, by->received_ends);
  auto made = tape.make(std::move(y),
                        x.placements.with(axis::expert, placement::routed)
                            .with(axis::expert_tensor, placement::routed));
  if (x.gradient)
    tape.record([dx = x.gradient, dy = made.gradient, slots, by, is = x.data.extents()](auto& on) {
      const auto grad = std::move(dy->sum);
      const auto back = exchanged(on, grad, by->received_ends, by->sent_ends);
      on.add(*dx, unpermuted(on, back, slots).view(is));
    });
  return made;
}

/// All-gather of the rows of the expert tensor ranks.
tensor gathered_rows(tape& tape, const tensor& x, const row_exchange& by) {
  auto y = empty_rows(tape, x, by.gathered_ends.back());
  tape.group(axis::expert_tensor)
      .all_gather(tape.stream(), x.raw(), y.raw(), times(by.gathered_ends, bytes_of_row(x)));
  return y;
}

/// Reduce-scatter: this rank's rows of the sum.
tensor scattered_rows(tape& tape, const tensor& x, const row_exchange& by) {
  auto y = empty_rows(tape, x, by.received_ends.back());
  const void* const part = x.raw();
  tape.group(axis::expert_tensor)
      .reduce_scatter_sum(
          tape.stream(), x.type(), {&part, 1}, y.raw(), times(by.gathered_ends, channels_of(x)));
  return y;
}

using row_collective = tensor (*)(tape&, const tensor&, const row_exchange&);

variable between_tensor_ranks(tape& tape,
                              const variable& x,
                              const shared_plan& by,
                              placement result,
                              row_collective forward,
                              row_collective backward) {
  const auto placements = x.placements.with(axis::expert_tensor, result);
  if (tape.group_size(axis::expert_tensor) == 1) {
    auto y = x;
    y.placements = placements;
    return y;
  }
  auto y = tape.make(forward(tape, x.data, *by), placements);
  if (x.gradient)
    tape.record([dx = x.gradient, dy = y.gradient, by, backward](auto& on) {
      const auto grad = std::move(dy->sum);
      on.add(*dx, backward(on, grad, *by));
    });
  return y;
}

}  // namespace

exchange_sizes exchange_of(std::span<const std::int64_t> counts,
                           std::int64_t experts,
                           axis_rank at,
                           axis_rank at_tensor) {
  const std::int64_t EP = at.size, ETP = at_tensor.size;
  ensure_choice(experts % EP == 0);
  const auto own = experts / EP;
  const auto of = [&](std::int64_t t, std::int64_t source, std::int64_t rank) {
    return counts.subspan(std::size_t((t * EP + source) * experts + rank * own), std::size_t(own));
  };
  const auto rows = [&](std::int64_t t, std::int64_t source, std::int64_t rank) {
    const auto all = of(t, source, rank);
    return std::accumulate(all.begin(), all.end(), std::int64_t{0});
  };
  exchange_sizes out;
  expert_groups groups{{0}, {}};
  for (std::int64_t r = 0; r < EP; ++r) {
    append(out.sent_ends, rows(at_tensor.rank, at.rank, r));
    append(out.received_ends, rows(at_tensor.rank, r, at.rank));
  }
  for (std::int64_t t = 0; t < ETP; ++t) {
    for (std::int64_t s = 0; s < EP; ++s)
      for (std::int64_t e = 0; e < own; ++e) {
        append(groups.offsets, of(t, s, at.rank)[std::size_t(e)]);
        groups.experts.push_back(std::int32_t(e));
        groups.sources.push_back(std::int32_t(s));
      }
    out.gathered_ends.push_back(groups.offsets.back());
  }
  out.groups = std::make_shared<const expert_groups>(std::move(groups));
  return out;
}

std::shared_ptr<const row_exchange> rows_of_experts(tape& tape,
                                                    const expert_choice& x,
                                                    const exchange_options& options) {
  const auto entries = std::int64_t(x.chosen.size());
  ensure_choice(x.each >= 1 && entries % x.each == 0);
  const auto R = entries / x.each;
  const bool in_shadow = tape.stream().pool().is_shadow();
  if (!in_shadow)
    ensure_choice(std::all_of(
        x.chosen.begin(), x.chosen.end(), [&](auto e) { return e >= -1 && e < x.experts; }));
  const auto counts = in_shadow ? all_counts{loaded_counts(tape, x, R, options.shadow_load), {}}
                                : counts_of_all(tape, x, R);
  auto out = std::make_shared<row_exchange>(exchange_of(counts.of_experts,
                                                        x.experts,
                                                        rank_along(tape, axis::expert),
                                                        rank_along(tape, axis::expert_tensor)));
  const bool gathers_rows = options.gathers && tape.group_size(axis::expert) > 1;
  if (in_shadow)
    allocate(tape, x, R, gathers_rows, *out);
  else
    place_rows(tape, x, R, counts, gathers_rows, *out);
  return out;
}

dispatched dispatch(tape& tape,
                    const variable& x,
                    const variable& weights,
                    std::shared_ptr<const row_exchange> by) {
  for (const auto* const in : {&x, &weights})
    if (tape.group_size() > 1)
      require_placement(*in, placement::sequence_sharded, "dispatch");
    else
      require_residual(*in, "dispatch");
  auto rows = sent(tape, x, false, by);
  return {std::move(rows), sent(tape, weights, true, by)};
}

variable gather_rows(tape& tape, const variable& x, std::shared_ptr<const row_exchange> by) {
  require_placement(x, placement::routed, "gather_rows", axis::expert_tensor);
  return between_tensor_ranks(
      tape, x, by, placement::replicated_partial_gradient, gathered_rows, scattered_rows);
}

variable scatter_rows(tape& tape, const variable& x, std::shared_ptr<const row_exchange> by) {
  require_placement(x, placement::partial, "scatter_rows", axis::expert_tensor);
  return between_tensor_ranks(tape, x, by, placement::routed, scattered_rows, gathered_rows);
}

variable combine(tape& tape, const variable& x, std::shared_ptr<const row_exchange> by) {
  for (const auto along : {axis::expert, axis::expert_tensor})
    require_placement(x, placement::routed, "combine", along);
  const auto back = exchanged(tape, x.data, by->received_ends, by->sent_ends);
  auto y = tape.make(unpermuted(tape, back, by->sent),
                     x.placements.with(axis::expert, placement::replicated)
                         .with(axis::expert_tensor, placement::replicated));
  if (x.gradient)
    tape.record([dx = x.gradient, dy = y.gradient, by](auto& on) {
      const auto grad = std::move(dy->sum);
      on.add(*dx, exchanged(on, permuted(on, grad, by->sent), by->sent_ends, by->received_ends));
    });
  return y;
}

}  // namespace troupe::runtime
