#include "runtime/parameters/buckets.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

using entry = resident_store::entry;

bool stands_alone(const entry& e) {
  return e.spec.has_copies || !e.spec.tied_to.empty();
}

/// Where the last entry of a store or bucket ends, with what fills its line.
std::int64_t end_of(const std::vector<entry>& entries, int e, std::int64_t all) {
  return e + 1 < int(entries.size()) ? entries[std::size_t(e) + 1].gradient_offset : all;
}

/// The cut nearest to `target` (in the gradients) that parts no grain.
std::int64_t nearest_cut(const std::vector<entry>& entries,
                         const bucket& b,
                         std::int64_t target,
                         std::int64_t grain) {
  int at = b.first;
  while (at + 1 < b.end && entries[std::size_t(at) + 1].gradient_offset <= target)
    ++at;
  const auto& e = entries[std::size_t(at)];
  const auto before = e.gradient_offset + (target - e.gradient_offset) / grain * grain;
  const auto bucket_end = b.begin + b.ends.back();
  const auto next = at + 1 < b.end ? entries[std::size_t(at) + 1].gradient_offset : bucket_end;
  const auto after = before + grain < e.gradient_offset + e.valid ? before + grain : next;
  return target - before <= after - target ? before : after;
}

void share_out(const std::vector<entry>& entries, bucket& b, int ranks, std::int64_t grain) {
  const auto size = b.ends.back();
  std::vector<std::int64_t> ends;
  for (int r = 1; r < ranks; ++r) {
    const auto target = b.begin + size * r / ranks;
    const auto found = nearest_cut(entries, b, target, grain) - b.begin;
    ends.push_back(std::clamp(found, ends.empty() ? 0 : ends.back(), size));
  }
  ends.push_back(size);
  b.ends = std::move(ends);
}

}  // namespace

std::vector<bucket> make_buckets(const resident_store& store,
                                 std::int64_t size,
                                 int ranks,
                                 std::int64_t grain) {
  const auto& entries = store.entries();
  const auto all = store.gradient_size();
  std::vector<bucket> out;
  for (int end = int(entries.size()); end > 0;) {
    int first = end - 1;
    const auto limit = end_of(entries, first, all);
    const auto taken = [&] { return limit - entries[std::size_t(first)].gradient_offset; };
    if (!stands_alone(entries[std::size_t(first)]))
      while (first > 0 && taken() < size && !stands_alone(entries[std::size_t(first) - 1]))
        --first;
    const auto& e = entries[std::size_t(first)];
    bucket b{.first = first,
             .end = end,
             .lowest_unit = e.unit,
             .begin = e.gradient_offset,
             .value_begin = e.value_offset,
             .ends = {taken()},
             .has_values = e.owner < 0};
    share_out(entries, b, ranks, grain);
    out.push_back(std::move(b));
    end = first;
  }
  return out;
}

std::vector<entry_range> owned_ranges(const resident_store& store,
                                      const std::vector<bucket>& buckets,
                                      int rank) {
  std::vector<entry_range> out;
  for (auto b = buckets.rbegin(); b != buckets.rend(); ++b) {
    const auto share_end = b->begin + b->ends[std::size_t(rank)];
    const auto share_begin = b->begin + (rank == 0 ? 0 : b->ends[std::size_t(rank) - 1]);
    for (int i = b->first; i < b->end; ++i) {
      const auto& e = store.entries()[std::size_t(i)];
      const auto begin = std::clamp<std::int64_t>(share_begin - e.gradient_offset, 0, e.valid);
      const auto end = std::clamp<std::int64_t>(share_end - e.gradient_offset, 0, e.valid);
      if (end > begin)
        out.push_back({i, begin, end});
    }
  }
  return out;
}

std::vector<entry_range> whole_ranges(const resident_store& store) {
  std::vector<entry_range> out;
  for (int i = 0; i < int(store.entries().size()); ++i)
    if (store.entries()[std::size_t(i)].valid > 0)
      out.push_back({i, 0, store.entries()[std::size_t(i)].valid});
  return out;
}

}  // namespace troupe::runtime
