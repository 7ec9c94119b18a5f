#include "runtime/schedule/generators/slot_grid.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>

namespace troupe::runtime::schedules {

slot_grid::slot_grid(const std::vector<std::array<int, steps_of_pattern>>& pattern,
                     int period,
                     int microbatches)
    : microbatches_(microbatches), rows_(pattern.size()), inputs_(pattern.size()) {
  for (const auto what :
       {step::down_forward, step::up_forward, step::up_inputs, step::down_inputs, step::weights})
    slots_of_[std::size_t(what)].assign(index(what, ranks(), 0), 0);
  for (int r = 0; r < ranks(); ++r) {
    const auto& offsets = pattern[std::size_t(r)];
    const int last = *std::max_element(offsets.begin(), offsets.end());
    rows_[std::size_t(r)].resize(std::size_t(last + (microbatches - 1) * period + 1));
    for (int k = 0; k < microbatches; ++k)
      for (std::size_t s = 0; s < steps_of_pattern; ++s) {
        const int slot = offsets[s] + k * period;
        ensure(is_free(r, slot), "PATTERN-1: a pattern's steps have slots of their own");
        put(r, slot, {step(s), k});
        if (is_input_gradients(step(s)))
          inputs_[std::size_t(r)].push_back(slot);
      }
    std::sort(inputs_[std::size_t(r)].begin(), inputs_[std::size_t(r)].end());
  }
  for (int r = 0; r < ranks(); ++r)
    for (int slot = 0; slot < slots(r); ++slot)
      ensure(is_free(r, slot) || ready(r, slot) <= slot,
             "PATTERN-2: a pattern keeps the order of its steps");
}

int slot_grid::slots() const {
  int out = 0;
  for (int r = 0; r < ranks(); ++r)
    out = std::max(out, slots(r));
  return out;
}

int slot_grid::ready(int rank, int slot) const {
  return ready(rank, at(rank, slot));
}

int slot_grid::ready(int rank, const cell& x) const {
  int out = 0;
  const auto need
      = [&](step what, int of, int number) { out = std::max(out, slot_of(what, of, number) + 1); };
  const bool is_down = x.what == step::down_forward || x.what == step::up_inputs;
  if (x.number > 0)
    need(x.what, rank, x.number - 1);
  if (x.what == step::weights)
    return std::max(out, inputs_[std::size_t(rank)][std::size_t(x.number)] + 1);
  if (x.what != step::down_forward)
    need(step(std::int8_t(x.what) - 1), rank, x.number);
  if (const int before = is_down ? rank - 1 : rank + 1; before >= 0 && before < ranks())
    need(x.what, before, x.number);
  return out;
}

void slot_grid::put(int rank, int slot, const cell& x) {
  rows_[std::size_t(rank)][std::size_t(slot)] = x;
  slots_of_[std::size_t(x.what)][index(x.what, rank, x.number)] = slot;
}

void slot_grid::move(int rank, int from, int to) {
  const auto x = at(rank, from);
  rows_[std::size_t(rank)][std::size_t(from)] = {};
  put(rank, to, x);
  if (!is_input_gradients(x.what))
    return;
  auto& all = inputs_[std::size_t(rank)];
  auto here = std::lower_bound(all.begin(), all.end(), from);
  for (; here != all.begin() && here[-1] > to; --here)
    *here = here[-1];
  *here = to;
}

void slot_grid::put_weights() {
  for (int r = 0; r < ranks(); ++r) {
    auto& row = rows_[std::size_t(r)];
    int inputs = 0, done = 0;
    for (int slot = 0; slot < slots(r); ++slot)
      if (!is_free(r, slot))
        inputs += is_input_gradients(at(r, slot).what);
      else if (done < inputs)
        put(r, slot, {step::weights, done++});
    for (; done < inputs; ++done) {
      row.emplace_back();
      put(r, slots(r) - 1, {step::weights, done});
    }
  }
}

void slot_grid::take_out_weights() {
  for (auto& row : rows_) {
    for (auto& x : row)
      if (x.what == step::weights)
        x = {};
    while (!row.empty() && row.back().what == step::none)
      row.pop_back();
  }
}

void slot_grid::squeeze() {
  const auto before = rows_;
  const int last = slots();
  for (auto& row : rows_)
    row.clear();
  for (auto& slots : inputs_)
    slots.clear();
  // Needs were in earlier slots, so they already have their new slots.
  for (int slot = 0; slot < last; ++slot)
    for (int r = 0; r < ranks(); ++r) {
      const auto& old = before[std::size_t(r)];
      if (std::size_t(slot) >= old.size() || old[std::size_t(slot)].what == step::none)
        continue;
      const auto& x = old[std::size_t(slot)];
      const int here = std::max(slots(r), ready(r, x));
      rows_[std::size_t(r)].resize(std::size_t(here) + 1);
      put(r, here, x);
      if (is_input_gradients(x.what))
        inputs_[std::size_t(r)].push_back(here);
    }
}

}  // namespace troupe::runtime::schedules
