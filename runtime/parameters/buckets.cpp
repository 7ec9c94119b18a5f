#include "runtime/parameters/buckets.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

using entries = std::vector<parameter_entry>;

bool stands_alone(const parameter_entry& e) {
  return e.spec.has_copies || !e.spec.tied_to.empty();
}

/// The grain boundary nearest to `target`, in elements from the beginning of the bucket.
std::int64_t nearest_cut(const parameter_store& store,
                         const bucket& b,
                         std::int64_t target,
                         std::int64_t grain) {
  const auto& all = store.entries();
  std::int64_t begin = 0;
  int at = b.first;
  while (at + 1 < b.end && begin + all[std::size_t(at)].room <= target)
    begin += all[std::size_t(at++)].room;
  const auto& e = all[std::size_t(at)];
  // STACK-1. Padding follows the last matrix.
  const auto matrices = matrices_of(e.spec, store.axes());
  const auto matrix = std::min(matrices.at(target - begin), matrices.count - 1);
  const bool last = matrix + 1 == matrices.count;
  const auto next = begin + (last ? e.room : (matrix + 1) * matrices.each);
  const auto end = last ? begin + e.valid : next;
  begin += matrix * matrices.each;
  if (e.spec.is_counted())  // STATISTIC-1
    grain = e.room;
  const auto before = begin + (target - begin) / grain * grain;
  const auto after = before + grain < end ? before + grain : next;
  return target - before <= after - target ? before : after;
}

void share_out(const parameter_store& store, bucket& b, int ranks, std::int64_t grain) {
  const auto size = b.ends.back();
  std::vector<std::int64_t> ends;
  for (int r = 1; r < ranks; ++r) {
    const auto found = nearest_cut(store, b, size * r / ranks, grain);
    ends.push_back(std::clamp(found, ends.empty() ? 0 : ends.back(), size));
  }
  ends.push_back(size);
  b.ends = std::move(ends);
}

/// Appends the elements [begin, end) of an entry: a range for each matrix that has some of them.
void add_ranges(const parameter_store& store,
                const parameter_entry& e,
                std::int64_t begin,
                std::int64_t end,
                std::vector<entry_range>& to) {
  const auto matrices = matrices_of(e.spec, store.axes());
  while (begin < end) {
    const auto matrix = matrices.at(begin);
    const auto next = matrix + 1 == matrices.count ? end : (matrix + 1) * matrices.each;
    to.push_back({e.index, begin, std::min(next, end)});
    begin = to.back().end;
  }
}

}  // namespace

std::vector<bucket> make_buckets(const parameter_store& store,
                                 std::int64_t size,
                                 const of_group& ranks,
                                 std::int64_t grain) {
  const auto& all = store.entries();
  std::vector<bucket> out;
  for (int end = int(all.size()); end > 0;) {
    int first = end - 1;
    auto taken = all[std::size_t(first)].room;
    const auto along = all[std::size_t(first)].spec.placements.sums();
    // True if the previous entry belongs to the same bucket.
    const auto goes_on = [&] {
      const auto& before = all[std::size_t(first) - 1];
      return taken < size && !stands_alone(before) && all[std::size_t(first)].follows
             && before.spec.placements.sums() == along
             && store.parts(before) == store.parts(all[std::size_t(first)])
             && before.spec.frozen == all[std::size_t(first)].spec.frozen
             && store.type_of(before) == store.type_of(all[std::size_t(first)]);
    };
    if (!stands_alone(all[std::size_t(first)]))
      while (first > 0 && goes_on())
        taken += all[std::size_t(--first)].room;
    const auto& e = all[std::size_t(first)];
    bucket b{.first = first,
             .end = end,
             .along = along,
             .lowest_unit = e.unit,
             .ends = {taken},
             .has_values = e.owner < 0,
             .frozen = e.spec.frozen};
    // Grains of frozen values are in f32 words of the store's type.
    const auto per_word = b.frozen ? std::int64_t(4 / size_of(store.type_of(e))) : 1;
    share_out(store, b, along.is_empty() ? 1 : std::max(1, ranks(along)), grain * per_word);
    out.push_back(std::move(b));
    end = first;
  }
  return out;
}

std::vector<entry_range> owned_ranges(const parameter_store& store,
                                      const std::vector<bucket>& buckets,
                                      const of_group& rank_in) {
  std::vector<entry_range> out;
  for (auto b = buckets.rbegin(); b != buckets.rend(); ++b) {
    const auto rank = b->ends.size() == 1 ? 0 : std::size_t(rank_in(b->along));
    const auto share_end = b->ends[rank];
    const auto share_begin = rank == 0 ? 0 : b->ends[rank - 1];
    std::int64_t offset = 0;
    for (int i = b->first; i < b->end; ++i) {
      const auto& e = store.entries()[std::size_t(i)];
      const auto begin = std::clamp<std::int64_t>(share_begin - offset, 0, e.valid);
      const auto end = std::clamp<std::int64_t>(share_end - offset, 0, e.valid);
      add_ranges(store, e, begin, end, out);
      offset += e.room;
    }
  }
  return out;
}

std::vector<entry_range> whole_ranges(const parameter_store& store) {
  std::vector<entry_range> out;
  for (const auto& e : store.entries())
    add_ranges(store, e, 0, e.valid, out);
  return out;
}

}  // namespace troupe::runtime
