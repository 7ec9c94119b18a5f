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
std::int64_t nearest_cut(const entries& all,
                         const bucket& b,
                         std::int64_t target,
                         std::int64_t grain) {
  std::int64_t begin = 0;
  int at = b.first;
  while (at + 1 < b.end && begin + all[std::size_t(at)].room <= target)
    begin += all[std::size_t(at++)].room;
  const auto& e = all[std::size_t(at)];
  const auto before = begin + (target - begin) / grain * grain;
  const auto after = before + grain < begin + e.valid ? before + grain : begin + e.room;
  return target - before <= after - target ? before : after;
}

void share_out(const entries& all, bucket& b, int ranks, std::int64_t grain) {
  const auto size = b.ends.back();
  std::vector<std::int64_t> ends;
  for (int r = 1; r < ranks; ++r) {
    const auto found = nearest_cut(all, b, size * r / ranks, grain);
    ends.push_back(std::clamp(found, ends.empty() ? 0 : ends.back(), size));
  }
  ends.push_back(size);
  b.ends = std::move(ends);
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
    share_out(all, b, along.is_empty() ? 1 : std::max(1, ranks(along)), grain * per_word);
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
      if (end > begin)
        out.push_back({i, begin, end});
      offset += e.room;
    }
  }
  return out;
}

std::vector<entry_range> whole_ranges(const parameter_store& store) {
  std::vector<entry_range> out;
  for (const auto& e : store.entries())
    if (e.valid > 0)
      out.push_back({e.index, 0, e.valid});
  return out;
}

}  // namespace troupe::runtime
