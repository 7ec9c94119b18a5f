#include "runtime/checkpoint/cover.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

using boxes = std::vector<const box*>;

std::int64_t end_of(const box& x, int axis) {
  return x.first[axis] + x.extents[axis];
}

bool touches(const box& piece, const box& region) {
  return intersection(piece, region).size() > 0;
}

/// A plane that splits a region.
struct split_plane {
  int axis = -1;
  std::int64_t at = 0;
  std::size_t split = 0;  // pieces that the cut splits
};

/// Cuts at the median face inside the region, along the axis that splits the fewest pieces. Returns
/// no axis if no face is inside.
split_plane best_split(const box& region, const boxes& pieces) {
  split_plane best;
  for (int axis = 0; axis < region.extents.rank(); ++axis) {
    std::vector<std::int64_t> faces;
    for (const auto* x : pieces)
      for (const auto at : {x->first[axis], end_of(*x, axis)})
        if (at > region.first[axis] && at < end_of(region, axis))
          faces.push_back(at);
    if (faces.empty())
      continue;
    const auto middle = faces.begin() + std::ptrdiff_t(faces.size() / 2);
    std::nth_element(faces.begin(), middle, faces.end());
    const auto split = std::size_t(std::count_if(pieces.begin(), pieces.end(), [&](const box* x) {
      return x->first[axis] < *middle && end_of(*x, axis) > *middle;
    }));
    if (best.axis < 0 || split < best.split)
      best = {axis, *middle, split};
  }
  return best;
}

/// Grows an empty region as far as the pieces around it allow.
box grown(box gap, const shape& whole, std::span<const box> pieces) {
  for (int axis = 0; axis < whole.rank(); ++axis) {
    std::int64_t begin = 0, end = whole[axis];
    const auto through = between(gap, axis, 0, whole[axis]);
    for (const auto& x : pieces) {
      if (!touches(x, through))
        continue;
      if (end_of(x, axis) <= gap.first[axis])
        begin = std::max(begin, end_of(x, axis));
      else
        end = std::min(end, x.first[axis]);
    }
    gap = between(gap, axis, begin, end);
  }
  return gap;
}

/// Returns the fault in a region; `inside` are the pieces that touch it. Each cut halves the faces
/// on one axis, so the recursion depth is at most rank * log2(2 n).
struct fault {
  std::optional<box> gap;
  const box* overlapping[2] = {};
};

std::optional<fault> find_fault(const box& region, const boxes& inside) {
  if (inside.empty())
    return fault{region, {}};
  const auto where = best_split(region, inside);
  if (where.axis < 0) {  // each piece covers the region
    if (inside.size() == 1)
      return std::nullopt;
    return fault{std::nullopt, {inside[0], inside[1]}};
  }
  const auto& [axis, at, split] = where;
  for (const auto& half : {between(region, axis, region.first[axis], at),
                           between(region, axis, at, end_of(region, axis))}) {
    boxes there;
    for (const auto* x : inside)
      if (touches(*x, half))
        there.push_back(x);
    if (auto found = find_fault(half, there))
      return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> cover_fault(const shape& whole, std::span<const box> pieces) {
  const auto all = runtime::whole(whole);
  boxes each;
  for (const auto& x : pieces) {
    ensure(contains(whole, x), "COVER-1: pieces lie inside their tensor");
    if (x.size() == 0 && x != all)
      return to_string(x) + " is a piece without elements";
    each.push_back(&x);
  }
  if (all.size() == 0 && each.size() == 1)
    return std::nullopt;
  if (all.size() == 0)
    return fmt::format("it has no elements, but {} pieces", each.size());
  const auto found = find_fault(all, each);
  if (!found)
    return std::nullopt;
  if (found->gap)
    return fmt::format("{} is in none of its {} pieces",
                       to_string(grown(*found->gap, whole, pieces)),
                       pieces.size());
  const auto& [one, two] = found->overlapping;
  return *one == *two
             ? fmt::format("{} is in two pieces", to_string(*one))
             : fmt::format("its pieces {} and {} overlap", to_string(*one), to_string(*two));
}

}  // namespace troupe::runtime
