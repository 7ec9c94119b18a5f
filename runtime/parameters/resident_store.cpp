#include "runtime/parameters/resident_store.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

tensor zeros(memory_pool& pool, dtype type, std::int64_t n) {
  tensor out(pool.allocate_shared(std::size_t(n) * size_of(type)), type, {n});
  pool.clear(out.raw(), out.bytes());
  return out;
}

}  // namespace

resident_store::resident_store(std::vector<unit_spec> units,
                               int replicas,
                               memory_pool pool,
                               dtype type,
                               const axis_ranks& ranks,
                               tensor all_values,
                               gradient_memory memory,
                               value_memory memory_of_values,
                               source_sums sums)
    : units_(std::move(units)),
      replicas_(replicas),
      ranks_(ranks),
      pool_(std::move(pool)),
      type_(type),
      sums_(sums),
      entries_(entries_of(units_, ranks)),
      memory_of_values_(memory_of_values),
      memory_(memory),
      held_(units_.size()),
      dropped_(units_.size()),
      emitted_(units_.size()),
      gate_(units_.size()) {
  const bool lasting = memory_ == gradient_memory::lasting;
  ensure(keeps_values() || (!lasting && !all_values),
         "STORE-8: droppable values belong to the store, and their gradients are droppable too");
  const entry* before = nullptr;  // the last one with values of its own
  for (auto& e : entries_) {
    if (int(first_.size()) <= e.unit)
      first_.resize(std::size_t(e.unit) + 1, e.index);
    e.follows = e.index > 0 && (lasting || e.index > first_[std::size_t(e.unit)]);
    for (auto* const of : {&first_source_, &further_sources_}) {
      if (!e.follows)
        of->sizes.push_back(0);
      of->offsets.push_back(of->sizes.back());
      of->sizes.back() += of == &first_source_ || sources(e) > 1 ? e.gradient_room() : 0;
    }
    array_of_.push_back(int(first_source_.sizes.size()) - 1);
    if (e.owner >= 0) {
      value_array_of_.push_back(value_array_of_[std::size_t(e.owner)]);
      value_offsets_.push_back(value_offsets_[std::size_t(e.owner)]);
      continue;
    }
    if (before == nullptr
        || (!keeps_values()
            && (before->unit != e.unit || before->spec.frozen != e.spec.frozen
                || type_of(*before) != type_of(e))))
      value_sizes_.push_back(0);
    before = &e;
    value_array_of_.push_back(int(value_sizes_.size()) - 1);
    value_offsets_.push_back(value_sizes_.back());
    value_sizes_.back() += room_of_values(e);
  }
  first_.resize(units_.size(), int(entries_.size()));  // trailing units without parameters
  for (auto* const of : {&first_source_, &further_sources_})
    if (of->sizes.empty())
      of->sizes.push_back(0);
  if (value_sizes_.empty())
    value_sizes_.push_back(0);
  ensure(!all_values || (all_values.type() == type && all_values.size() == value_sizes_.front()),
         "STORE-5: values that a store takes over have its type and size");
  values_.resize(value_sizes_.size());
  if (all_values)
    values_.front() = std::move(all_values);
  else if (keeps_values())
    values_.front() = zeros(pool_, type, value_sizes_.front());
  else
    allocate_values();
  const auto all = std::size_t(parts());
  gradients_.assign(all, std::vector<tensor>(first_source_.sizes.size()));
  for (std::size_t p = 0; lasting && p < all; ++p)
    gradients_[p].front() = zeros(pool_, dtype::f32, arrays_of(int(p)).sizes.front());
  stale_.assign(all, std::vector<char>(entries_.size(), lasting ? 0 : 1));
}

// Reserves one segment of the pool first, so that dropped blocks merge again.
void resident_store::allocate_values() {
  std::size_t all = 0;
  for (const auto n : value_sizes_)
    all += std::size_t(n) * size_of(type_);
  pool_.allocate(all);
  for (std::size_t a = 0; a < values_.size(); ++a) {
    const auto n = value_sizes_[a];
    values_[a] = tensor(pool_.allocate(std::size_t(n) * size_of(type_)), type_, {n});
    pool_.clear(values_[a].raw(), values_[a].bytes());
  }
}

void resident_store::acquire(int unit) {
  auto& held = held_.at(std::size_t(unit));
  gate_.pass(unit);
  ++held;
}

void resident_store::release(int unit) {
  auto& held = held_.at(std::size_t(unit));
  ensure(held > 0, "STORE-2: a released unit was acquired");
  if (--held == 0 && std::exchange(dropped_[std::size_t(unit)], 0) != 0)
    give_values_back(unit);
}

const void* resident_store::value(int unit, int index) const {
  ensure(held_[std::size_t(unit)] > 0, "STORE-3: values are read while their unit is acquired");
  return values(int(at(unit, index)));
}

float* resident_store::gradient(int unit, int index, int source) {
  ensure(held_[std::size_t(unit)] > 0, "STORE-4: gradients are added while their unit is acquired");
  return gradients(part_of(source), int(at(unit, index)));
}

bool resident_store::take_first_gradient(int unit, int index, int source) {
  return std::exchange(stale_.at(std::size_t(part_of(source)))[at(unit, index)], 0) != 0;
}

// The caller must clear or overwrite its entries. Padding between entries is cleared here.
tensor& resident_store::array_with(int part, std::size_t entry) {
  const auto which = std::size_t(array_of_[entry]);
  auto& out = gradients_[std::size_t(part)][which];
  if (out)
    return out;
  const auto& [sizes, offsets] = arrays_of(part);
  const auto n = sizes[which];
  out = tensor(pool_.allocate(std::size_t(n) * sizeof(float)), dtype::f32, {n});
  for (std::size_t e = 0; e < entries_.size(); ++e)
    if (const auto between = entries_[e].gradient_room() - entries_[e].size();
        std::size_t(array_of_[e]) == which && between > 0 && part < parts(entries_[e]))
      pool_.clear(reinterpret_cast<std::byte*>(out.data<float>() + offsets[e] + entries_[e].size()),
                  std::size_t(between) * sizeof(float));
  return out;
}

void resident_store::clear_if_stale(int part, std::size_t entry) {
  auto& stale = stale_.at(std::size_t(part))[entry];
  if (!stale || entries_[entry].spec.frozen)
    return;
  auto& all = array_with(part, entry);
  stale = 0;
  pool_.clear(reinterpret_cast<std::byte*>(all.data<float>() + arrays_of(part).offsets[entry]),
              std::size_t(entries_[entry].room) * sizeof(float));
}

void resident_store::emit(int unit) {
  for (auto e = at(unit, 0); e < entries_.size() && entries_[e].unit == unit; ++e)
    for (int s = 0; s < sources(entries_[e]); ++s)
      clear_if_stale(part_of(s), e);
  ++emitted_.at(std::size_t(unit));
  if (then_)
    then_(unit);
}

// The caller must write all valid elements. Padding is cleared here.
tensor& resident_store::values_with(int entry) {
  const auto which = array_of_values(entry);
  auto& out = values_[which];
  if (out)
    return out;
  const auto n = value_sizes_[which];
  out = tensor(pool_.allocate(std::size_t(n) * size_of(type_)), type_, {n});
  for (const auto& e : entries_)
    if (e.owner < 0 && array_of_values(e.index) == which && e.room > e.valid) {
      const auto element = size_of(type_of(e));
      pool_.clear(out.raw() + std::size_t(value_offsets_[std::size_t(e.index)]) * size_of(type_)
                      + std::size_t(e.valid) * element,
                  std::size_t(e.room - e.valid) * element);
    }
  return out;
}

std::byte* resident_store::values(int entry) {
  return values_with(entry).raw()
         + std::size_t(value_offsets_[std::size_t(entry)]) * size_of(type_);
}

void resident_store::drop_values(int unit) {
  if (keeps_values())
    return;
  if (held_.at(std::size_t(unit)) > 0)
    dropped_[std::size_t(unit)] = 1;
  else
    give_values_back(unit);
}

// Keeps frozen entries and those that consist of padding only: no caller writes them again.
void resident_store::give_values_back(int unit) {
  for (auto e = at(unit, 0); e < entries_.size() && entries_[e].unit == unit; ++e)
    if (entries_[e].owner < 0 && entries_[e].valid > 0 && !entries_[e].spec.frozen)
      values_[array_of_values(int(e))] = {};
}

float* resident_store::gradients(int part, int entry) {
  const auto e = std::size_t(entry);
  ensure(!entries_[e].spec.frozen, "STORE-9: a frozen parameter has no gradient");
  ensure(part < parts(entries_[e]),
         "STORE-11: only parameters that expert ranks share out have a gradient for each source");
  clear_if_stale(part, e);
  return array_with(part, e).data<float>() + arrays_of(part).offsets[e];
}

void resident_store::select_replica(int replica) {
  replica_ = replica;
}

void resident_store::zero_gradients() {
  for (auto& of_part : stale_)
    std::fill(of_part.begin(), of_part.end(), char(1));
  std::fill(emitted_.begin(), emitted_.end(), 0);
  drop_gradients();
}

void resident_store::drop_gradients() {
  if (memory_ == gradient_memory::lasting)
    return;
  for (std::size_t p = 0; p < gradients_.size(); ++p) {
    std::fill(gradients_[p].begin(), gradients_[p].end(), tensor());
    std::fill(stale_[p].begin(), stale_[p].end(), char(1));
  }
}

void resident_store::drop_gradients_of(int unit) {
  if (memory_ == gradient_memory::lasting)
    return;
  for (auto e = at(unit, 0); e < entries_.size() && entries_[e].unit == unit; ++e)
    for (std::size_t p = 0; p < gradients_.size(); ++p) {
      gradients_[p][std::size_t(array_of_[e])] = {};
      stale_[p][e] = 1;
    }
}

std::span<float> resident_store::gradients(int replica) {
  ensure(memory_ == gradient_memory::lasting, "STORE-6: only lasting gradients are in one array");
  for (std::size_t e = 0; e < entries_.size(); ++e)
    clear_if_stale(replica, e);
  auto& g = gradients_[std::size_t(replica)].front();
  return {g.data<float>(), std::size_t(g.size())};
}

}  // namespace troupe::runtime
