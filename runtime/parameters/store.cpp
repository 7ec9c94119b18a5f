#include "runtime/parameters/store.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

constexpr std::int64_t alignment = 16;  // elements: one cache line of floats

std::int64_t aligned(std::int64_t n) {
  return (n + alignment - 1) / alignment * alignment;
}

/// `goes_on(a, b)`: a stretch may have both entries.
template <class Counts, class GoesOn>
std::vector<parameter_store::stretch> stretches(const std::vector<parameter_entry>& entries,
                                                const Counts& counts,
                                                const GoesOn& goes_on) {
  std::vector<parameter_store::stretch> out;
  bool begins = true;
  for (const auto& e : entries) {
    begins = begins || !e.follows;
    if (!counts(e))
      continue;
    if (begins || !goes_on(entries[std::size_t(out.back().first)], e))
      out.push_back({e.index, e.index, 0});
    begins = false;
    out.back().end = e.index + 1;
    out.back().size += e.room;
  }
  return out;
}

}  // namespace

int sources_of(const parameter_spec& x, const axis_ranks& ranks) {
  return x.frozen || !x.placements[axis::expert].sharded() ? 1 : ranks[axis::expert].size;
}

std::vector<parameter_entry> entries_of(const std::vector<unit_spec>& units,
                                        const axis_ranks& ranks) {
  std::vector<parameter_entry> out;
  for (std::size_t u = 0; u < units.size(); ++u)
    for (const auto& spec : units[u].parameters) {
      parameter_entry e{.spec = spec,
                        .unit = int(u),
                        .index = int(out.size()),
                        .extents = local_extents(spec, ranks),
                        .boxes = local_boxes(spec, ranks)};
      for (const auto& part : e.boxes)
        e.valid += part.size();
      e.room = aligned(e.size());
      const auto owner = std::find_if(out.begin(), out.end(), [&](const parameter_entry& other) {
        return other.known_as() == spec.tied_to;
      });
      if (owner != out.end()) {
        ensure(owner->extents == e.extents && owner->spec.frozen == spec.frozen
                   && owner->spec.keep_f32 == spec.keep_f32,
               "STORE-1: tied parameters have one shape and type and are frozen together");
        e.owner = owner->index;
      }
      out.push_back(std::move(e));
    }
  return out;
}

const std::byte* parameter_store::values(int entry) const {
  ensure(has_values(entry), "STORE-7: dropped values are written before they are read");
  return const_cast<parameter_store*>(this)->values(entry);
}

void parameter_store::set(const parameter_entry& e,
                          std::int64_t begin,
                          std::span<const float> from) {
  const auto n = std::int64_t(from.size());
  if (type_of(e) == dtype::f32)
    return set_rounded(e, begin, n, from.data());
  std::vector<std::byte> rounded(from.size() * size_of(type_of(e)));
  round(e, from, rounded.data());
  set_rounded(e, begin, n, rounded.data());
}

void parameter_store::set_rounded(const parameter_entry& e,
                                  std::int64_t begin,
                                  std::int64_t n,
                                  const void* from) {
  const auto element = size_of(type_of(e));
  pool().write(values(e.index) + std::size_t(begin) * element, from, std::size_t(n) * element);
}

void parameter_store::round(const parameter_entry& e, std::span<const float> from, void* to) const {
  with_element(type_of(e), [&]<class T>(T) {
    std::transform(from.begin(), from.end(), static_cast<T*>(to), [](float x) { return T(x); });
  });
}

int parameter_store::parts() const {
  int most = replicas();
  for (const auto& e : entries())
    most = std::max(most, parts(e));
  return most;
}

std::vector<parameter_store::stretch> parameter_store::stretches_of_gradients(int part) const {
  return stretches(
      entries(),
      [&](const parameter_entry& e) { return !e.spec.frozen && part < parts(e); },
      [](const auto&, const auto&) { return true; });
}

std::vector<parameter_store::stretch> parameter_store::stretches_of_values() const {
  return stretches(
      entries(),
      [](const parameter_entry& e) { return e.owner < 0; },
      [this](const parameter_entry& a, const parameter_entry& b) {
        return a.spec.frozen == b.spec.frozen && type_of(a) == type_of(b)
               && a.spec.placements.view() == b.spec.placements.view();
      });
}

const parameter_entry& parameter_store::entry_at(int unit, int index) const {
  const auto& all = entries();
  const auto first = std::lower_bound(
      all.begin(), all.end(), unit, [](const parameter_entry& e, int u) { return e.unit < u; });
  return all.at(std::size_t(first - all.begin() + index));
}

}  // namespace troupe::runtime
