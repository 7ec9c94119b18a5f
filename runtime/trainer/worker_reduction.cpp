// The collectives of a worker: sums of gradients, and gathering of values from their owners.

#include "kernels/op/sum.hpp"
#include "runtime/trainer/worker.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::runtime {
namespace {

std::int64_t share_begin(const bucket& x, int rank) {
  return x.ends.size() == 1 || rank == 0 ? 0 : x.ends[std::size_t(rank) - 1];
}

float* gradient_of(parameter_store& store, const entry_range& x) {
  return store.gradients(0, x.entry) + x.begin;
}

void sum_in_place(communicator& group, stream& stream, float* x, std::int64_t n) {
  const void* const part = x;
  group.all_reduce_sum(stream, dtype::f32, {&part, 1}, x, n);
}

/// True if each rank of the axis has only a part of the gradient's sum.
bool is_partial(const parameter_entry& e, axis along) {
  const auto& lies = e.spec.placements;
  return lies.use(along) == axis_use::model && lies[along].partial_gradient;
}

/// True if the gradients of several uses are added, here or with another stage.
bool is_tied(const parameter_entry& e) {
  return e.spec.has_copies || !e.spec.tied_to.empty();
}

}  // namespace

void worker::hosted::check_sums(const coordinates& extents) const {
  for (const auto& x : buckets)
    group_of(x);
  for (const auto& e : store->entries())
    for (const auto& row : axis_table()) {
      const auto& lies = e.spec.placements;
      const bool is_covered
          = extents[row.id] <= 1
            || std::any_of(all_groups.begin(), all_groups.end(), [&](const auto& x) {
                 return x.first.has(row.id) && x.second->size() > 1;
               });
      if (lies[row.id].partial_gradient && (!is_covered || lies.use(row.id) == axis_use::none))
        throw broken_promise(fmt::format(
            "WORKER-13: a gradient is summed along each axis of its partial placement: nothing "
            "sums that of '{}' along {}",
            e.spec.name,
            row.title));
    }
}

// BUCKET-1
communicator* worker::hosted::group_of(axis_set sum) const {
  const group_map::value_type* widest = nullptr;
  for (const auto& x : all_groups)
    if (x.first.is_part_of(sum) && (widest == nullptr || widest->first.is_part_of(x.first)))
      widest = &x;
  for (const auto& [axes, group] : all_groups)
    ensure(!axes.is_part_of(sum) || axes.is_part_of(widest->first),
           "BUCKET-1: one group sums a bucket along all its axes");
  return widest == nullptr ? nullptr : widest->second;
}

int worker::hosted::sharers(axis_set sum) const {
  const auto* const group = state_sharded ? group_of(sum) : nullptr;
  return group == nullptr ? 1 : group->size();
}

int worker::hosted::share(axis_set sum) const {
  const auto* const group = state_sharded ? group_of(sum) : nullptr;
  return group == nullptr ? 0 : group->rank();
}

optimizer_groups worker::hosted::groups_of_optimizer() const {
  optimizer_groups out{.tensor = groups[axis::tensor]};
  if (!state_sharded)
    return out;
  out.of_entry.resize(store->entries().size());
  for (const auto& x : buckets)
    for (int e = x.first; e < x.end; ++e)
      out.of_entry[std::size_t(e)].group = group_of(x);
  int most = 1;
  for (const auto& x : out.of_entry)
    most = std::max(most, x.group ? x.group->size() : 1);
  for (int r = 0; r < most; ++r) {
    const auto theirs = owned_ranges(
        *store, buckets, [&](axis_set sum) { return std::min(r, sharers(sum) - 1); });
    std::vector<std::int64_t> ends(out.of_entry.size(), 0);
    for (std::size_t e = 0; e < ends.size(); ++e)
      ends[e] = r == 0 ? 0 : out.of_entry[e].ends.empty() ? 0 : out.of_entry[e].ends.back();
    for (const auto& x : theirs)
      ends[std::size_t(x.entry)] = x.end;
    for (std::size_t e = 0; e < ends.size(); ++e)
      if (auto& x = out.of_entry[e]; x.group && r < x.group->size())
        x.ends.push_back(ends[e]);
  }
  return out;
}

bool worker::hosted::is_summed(const bucket& x) const {
  const auto* const group = group_of(x);
  return group != nullptr && (group->size() > 1 || store->replicas() > 1);
}

gradient_prospects worker::hosted::prospects() const {
  const auto& entries = store->entries();
  gradient_prospects out{.added_to_later = std::vector<char>(entries.size(), 0),
                         .compared = compared};
  const auto mark = [&](int entry) { out.added_to_later[std::size_t(entry)] = 1; };
  for (const auto& e : entries) {
    if (is_tied(e))
      mark(e.index);
    if (e.owner >= 0)
      mark(e.owner);
    for (const auto& row : axis_table())
      if (const auto* const group = groups[row.id];
          group != nullptr && group->size() > 1 && is_partial(e, row.id))
        mark(e.index);
  }
  return out;
}

void worker::hosted::take_gradients(stream& by, int first, int end) {
  if (answers() || compared)
    optimizer.gradients().take(by, first, end);
}

// A gradient that no other rank adds to is final after the unit's last micro-batch, and still in
// the cache.
void worker::emitted(hosted& home, int unit) {
  if (home.store->emitted(unit) != microbatches())
    return;
  if (home.drops_values())
    home.store->drop_values(unit);
  const auto& entries = home.store->entries();
  for (const auto& x : home.buckets) {
    int first = x.first, end = x.end;
    while (first < end && entries[std::size_t(first)].unit != unit)
      ++first;
    while (first < end && entries[std::size_t(end) - 1].unit != unit)
      --end;
    if (first < end && !home.is_summed(x))
      home.take_gradients(stream_, first, end);
  }
  if (!complete_)
    return;
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    if (buckets_[b].home == &home && buckets_[b].stretch().lowest_unit == unit) {
      buckets_[b].point = stream_.mark();
      complete_(int(b));
    }
}

void worker::reduce_bucket(int which, stream& stream) {
  auto& found = buckets_.at(std::size_t(which));
  if (&stream != &stream_)
    stream.wait_for(found.point);
  sum_bucket(found, stream);
  found.home->take_gradients(stream, found.stretch().first, found.stretch().end);
  if (&stream != &stream_)
    found.point = stream.mark();
}

void worker::sum_bucket(const chunk_bucket& found, stream& stream) {
  const auto& x = found.stretch();
  auto& store = *found.home->store;
  std::vector<const void*> parts;
  for (int r = 0; r < store.replicas(); ++r) {
    parts.push_back(store.gradients(r, x.first));
    for (int e = x.first + 1; e < x.end; ++e)
      store.gradients(r, e);  // zeroes it if no pass wrote it
  }
  float* const sum = store.gradients(0, x.first);
  auto* const group = found.home->group_of(x);
  if (group == nullptr) {
    ensure(parts.size() == 1, "WORKER-9: several replicas are summed along the data axis");
    return;
  }
  if (!found.home->is_summed(x))
    return;
  if (settings_.distributed_optimizer)
    group->reduce_scatter_sum(
        stream, dtype::f32, parts, sum + share_begin(x, group->rank()), x.ends);
  else
    group->all_reduce_sum(stream, dtype::f32, parts, sum, x.size());
}

void worker::reduce() {
  for (int b = 0; b < buckets(); ++b)
    worker::reduce_bucket(b, stream_);
  worker::finish_reduction();
}

void worker::finish_reduction() {
  ensure(passes_.empty(), "WORKER-5: every pass has come back before gradients are reduced");
  for (auto& x : buckets_)  // summed on another stream
    stream_.wait_for(std::exchange(x.point, nullptr));
  for (auto& [id, home] : homes_) {
    for (const auto& row : axis_table())
      if (home->groups[row.id] != nullptr && home->groups[row.id]->size() > 1)
        add_partial_gradients(*home, row.id);
    add_tied_gradients(stream_, *home->store, home->owned);
  }
  if (groups_.along.contains(axis::pipeline))
    add_ties();
  else
    add_ties_between_chunks();
}

// Sends the many small gradients as one array.
void worker::add_partial_gradients(hosted& home, axis along) {
  std::vector<entry_range> ranges;
  std::int64_t size = 0;
  for (const auto& x : home.owned)
    if (is_partial(home.store->entries()[std::size_t(x.entry)], along)) {
      ranges.push_back(x);
      size += x.size();
    }
  if (size == 0)
    return;
  auto all = tensor::empty<float>(stream_, {size});
  if (stream_.pool().is_shadow())
    return;
  const auto each = [&](const auto& move) {
    std::int64_t at = 0;
    for (const auto& x : ranges) {
      move(all.data<float>() + at, gradient_of(*home.store, x), std::size_t(x.size()));
      at += x.size();
    }
  };
  each([&](float* there, const float* here, std::size_t n) {
    stream_.copy(there, here, n * sizeof(float));
  });
  sum_in_place(*home.groups[along], stream_, all.data<float>(), size);
  each([&](const float* there, float* here, std::size_t n) {
    stream_.copy(here, there, n * sizeof(float));
  });
}

// Both ends use the order of the copies, because they are summed within their copy.
void worker::add_ties() {
  std::vector<hosted*> homes;
  for (auto& [id, home] : homes_)
    homes.push_back(home.get());
  std::stable_sort(homes.begin(), homes.end(), [](const hosted* a, const hosted* b) {
    return a->copy < b->copy;
  });
  for (auto* const home : homes)
    for (const auto& x : home->owned) {
      const auto& e = home->store->entries()[std::size_t(x.entry)];
      if (e.is_foreign_copy() || e.spec.has_copies)
        sum_in_place(
            *groups_.along.at(axis::pipeline), stream_, gradient_of(*home->store, x), x.size());
    }
}

void worker::add_ties_between_chunks() {
  std::map<std::string, std::pair<hosted*, entry_range>> owners;
  for (auto& [id, home] : homes_)
    for (const auto& x : home->owned) {
      const auto& e = home->store->entries()[std::size_t(x.entry)];
      if (e.spec.has_copies)
        owners.insert_or_assign(e.spec.name, std::pair(home.get(), x));
    }
  for (auto& [id, home] : homes_)
    for (const auto& x : home->owned) {
      const auto& e = home->store->entries()[std::size_t(x.entry)];
      if (!e.is_foreign_copy())
        continue;
      const auto found = owners.find(e.spec.tied_to);
      ensure(found != owners.end() && found->second.second.begin == x.begin
                 && found->second.second.end == x.end,
             "WORKER-6: both ends of a tied parameter see the sum");
      float* const copy = gradient_of(*home->store, x);
      float* const owner = gradient_of(*found->second.first->store, found->second.second);
      stream_.run(kernels::add<float>{copy, owner, copy, x.size()});
      stream_.copy(owner, copy, std::size_t(x.size()) * sizeof(float));
    }
}

void worker::close_parameter_gates(const cancel_token& token) {
  for (auto& [id, home] : homes_)
    home->store->close_gate(token);
}

void worker::gather_bucket(int which, stream& stream) {
  const auto& found = buckets_.at(std::size_t(which));
  const auto& x = found.stretch();
  auto& store = *found.home->store;
  auto* const group = found.home->group_of(x);
  if (settings_.distributed_optimizer && x.has_values && group != nullptr && group->size() > 1) {
    const auto element = std::int64_t(size_of(store.type()));
    std::vector<std::int64_t> ends;
    for (const auto end : x.ends)
      ends.push_back(end * element);
    auto* const values = store.values(x.first);
    if (&stream != &stream_)
      stream.wait_for(updated_);
    group->all_gather(stream, values + share_begin(x, group->rank()) * element, values, ends);
  }
  // The last bucket comes first; a unit is complete with its last parameter.
  const auto& entries = store.entries();
  for (auto e = std::size_t(x.first); e < std::size_t(x.end); ++e)
    if (e + 1 == entries.size() || entries[e + 1].unit != entries[e].unit)
      store.open_gate(entries[e].unit, &stream == &stream_ ? nullptr : stream.mark());
}

std::vector<int> worker::gather_order() const {
  std::vector<int> out;
  for (int begin = 0, end = 0; begin < buckets(); begin = end) {
    while (end < buckets() && buckets_[std::size_t(end)].home == buckets_[std::size_t(begin)].home)
      ++end;
    for (int b = end - 1; b >= begin; --b)
      out.push_back(b);
  }
  return out;
}

void worker::gather() {
  for (const int b : gather_order())
    gather_bucket(b, stream_);
}

}  // namespace troupe::runtime
