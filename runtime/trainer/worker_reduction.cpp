// The collectives of a worker: sums of gradients, and gathering of values from their owners.

#include "kernels/op/sum.hpp"
#include "runtime/trainer/worker.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <utility>

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
  return !e.spec.frozen && lies.use(along) == axis_use::model && lies[along].partial_gradient;
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
      const auto use = lies.use(row.id);
      // Ranks along an axis of sums have parts of the gradient, whatever the placement says.
      const bool partial = lies[row.id].partial_gradient, by_bucket = sums_gradients(use);
      const bool alone = use != axis_use::none && extents[row.id] <= 1;
      if (e.spec.frozen || alone || (!partial && !by_bucket))
        continue;
      const auto* const by = by_bucket ? group_of(lies.sums()) : groups[row.id];
      if (!partial || use == axis_use::none || by == nullptr || !by->along().has(row.id)
          || by->size() == 1)
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
  optimizer_groups out{.along = groups};
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
  const auto& first = store->entries()[std::size_t(x.first)];
  return !x.frozen && group != nullptr && (group->size() > 1 || store->parts(first) > 1);
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
  if (x.frozen)
    return;
  auto& store = *found.home->store;
  std::vector<const void*> parts;
  for (int p = 0; p < store.parts(store.entries()[std::size_t(x.first)]); ++p) {
    parts.push_back(store.gradients(p, x.first));
    for (int e = x.first + 1; e < x.end; ++e)
      store.gradients(p, e);  // zeroes it if no pass wrote it
  }
  float* const sum = store.gradients(0, x.first);
  auto* const group = found.home->group_of(x);
  if (group == nullptr) {
    ensure(parts.size() == 1,
           "WORKER-9: several replicas, or sources of experts, are summed along a data axis");
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
  }
  std::set<copy_id> copies;  // ascending: ranks of a group sum them in one order
  for (const auto& [id, home] : homes_)
    copies.insert(home->copy);
  for (const auto copy : copies)
    for (const auto& which : ties_)
      add_ties(which, copy);
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

void worker::add_ties(const tie& which, copy_id copy) {
  std::vector<tie_use> here;  // chunks, units and parameters ascend: model order
  for (auto& [id, home] : homes_)
    for (const auto& x : home->owned)
      if (const auto& e = home->store->entries()[std::size_t(x.entry)];
          home->copy == copy && e.known_as() == which.owner && !e.spec.frozen)
        here.push_back({home.get(), x});
  if (here.empty())
    return;  // frozen, or another rank owns this part of the parameter
  const auto found = groups_.of_tie.find({which.owner, copy});
  const bool alone = found == groups_.of_tie.end();
  const auto holders = alone ? std::vector<int>(which.units.size(), 0) : found->second.holders;
  const int ranks = alone ? 1 : found->second.by->size(),
            own = alone ? 0 : found->second.by->rank();
  const auto cut = here.front().range;
  bool complete = std::all_of(here.begin(), here.end(), [&](const tie_use& x) {
    return x.range.begin == cut.begin && x.range.end == cut.end;
  });
  for (int r = 0; r < ranks; ++r) {
    const auto uses = std::count(holders.begin(), holders.end(), r);
    complete = complete && (r == own ? uses == std::ptrdiff_t(here.size()) : uses > 0);
  }
  ensure(complete, "WORKER-14: all uses of a tied parameter are summed, in model order");
  if (ranks > 1)
    return add_distant_ties(here, found->second);
  const auto& first = here.front();
  float* const sum = gradient_of(*first.home->store, first.range);
  for (std::size_t k = 1; k < here.size(); ++k)
    stream_.run(kernels::add<float>{
        sum, sum, gradient_of(*here[k].home->store, here[k].range), first.range.size()});
  spread(here, sum);
}

// Copies the sum to each use that has its own values.
void worker::spread(const std::vector<tie_use>& here, const float* sum) {
  for (const auto& x : here) {
    float* const to = gradient_of(*x.home->store, x.range);
    if (to != sum && x.home->store->entries()[std::size_t(x.range.entry)].owner < 0)
      stream_.copy(to, sum, std::size_t(x.range.size()) * sizeof(float));
  }
}

// The sum of two has one value in any order. Otherwise a rank with several uses, or ranks in
// another order, need all parts side by side.
void worker::add_distant_ties(const std::vector<tie_use>& here,
                              const worker_groups::tie_group& by) {
  const auto& holders = by.holders;
  auto& group = *by.by;
  const auto n = here.front().range.size();
  if (int(holders.size()) == group.size()
      && (holders.size() == 2 || std::is_sorted(holders.begin(), holders.end())))
    return sum_in_place(
        group, stream_, gradient_of(*here.front().home->store, here.front().range), n);
  auto parts = tensor::empty<float>(stream_, {std::int64_t(holders.size()), n});
  if (stream_.pool().is_shadow())
    return;
  std::vector<float*> place(holders.size());  // by rank, then in model order
  std::vector<std::int64_t> ends;
  float* next = parts.data<float>();
  float* mine = next;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank())
      mine = next;
    for (std::size_t k = 0; k < holders.size(); ++k)
      if (holders[k] == rank)
        place[k] = std::exchange(next, next + n);
    ends.push_back((next - parts.data<float>()) * std::int64_t(sizeof(float)));
  }
  float* to = mine;
  for (const auto& x : here)
    stream_.copy(std::exchange(to, to + n),
                 gradient_of(*x.home->store, x.range),
                 std::size_t(n) * sizeof(float));
  group.all_gather(stream_, mine, parts.data<float>(), ends);
  for (std::size_t k = 1; k < place.size(); ++k)
    stream_.run(kernels::add<float>{place[0], place[0], place[k], n});
  spread(here, place[0]);
}

void worker::close_parameter_gates(const cancel_token& token) {
  for (auto& [id, home] : homes_)
    home->store->close_gate(token);
}

void worker::gather_bucket(int which, stream& stream) {
  gather_bucket(which, stream, keeps_frozen_beside());
}

void worker::gather_bucket(int which, stream& stream, bool with_frozen) {
  const auto& found = buckets_.at(std::size_t(which));
  const auto& x = found.stretch();
  auto& store = *found.home->store;
  auto* const group = found.home->group_of(x);
  if (settings_.distributed_optimizer && x.has_values && (with_frozen || !x.frozen)
      && group != nullptr && group->size() > 1) {
    const auto& first = store.entries()[std::size_t(x.first)];
    const auto element = std::int64_t(size_of(store.type_of(first)));
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

void worker::bring_values() {
  for (const int b : gather_order())
    gather_bucket(b, stream_, true);
}

}  // namespace troupe::runtime
