#include "runtime/parameters/spec.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

/// Indices [first, end) of one dimension.
struct interval {
  std::int64_t first = 0, end = 0;
};

shape with(const shape& x, int dimension, std::int64_t extent) {
  shape out;
  for (int i = 0; i < x.rank(); ++i)
    out.push_back(i == dimension ? extent : x[i]);
  return out;
}

/// Calls visit(placement, rank) for each axis that shards the parameter.
template <class Visit>
void for_each_cut(const parameter_spec& x, const axis_ranks& ranks, const Visit& visit) {
  for (const auto& row : axis_table())
    if (const auto& lies = x.placements[row.id]; lies.sharded() && ranks[row.id].size > 1)
      visit(lies, ranks[row.id]);
}

/// A rank's part of the concatenated intervals `all`.
std::vector<interval> part_of(const std::vector<interval>& all, int sections, axis_rank at) {
  std::int64_t size = 0;
  for (const auto& x : all)
    size += x.end - x.first;
  const auto section = size / sections, each = section / at.size;
  std::vector<interval> out;
  for (int s = 0; s < sections; ++s) {
    const auto first = s * section + at.rank * each, end = first + each;
    std::int64_t before = 0;
    for (const auto& x : all) {
      const auto from = std::max(first - before, std::int64_t{0});
      const auto to = std::min(end - before, x.end - x.first);
      if (from < to)
        out.push_back({x.first + from, x.first + to});
      before += x.end - x.first;
    }
  }
  return out;
}

}  // namespace

parameter_placements::parameter_placements(
    std::initializer_list<std::pair<axis, parameter_placement>> some, axis_view view)
    : view_(view) {
  for (const auto& row : axis_table())
    if (sums_gradients(use(row.id)))
      along_[row.id] = partial_gradient();
  for (const auto& [a, lies] : some)
    along_[a] = lies;
}

axis_use parameter_placements::use(axis a) const {
  return row_of(a).use(view_);
}

axis_set parameter_placements::sums() const {
  return axes_where([this](const axis_row& x) {
    return along_[x.id].partial_gradient && sums_gradients(x.use(view_));
  });
}

parameter_placements of_experts(std::initializer_list<std::pair<axis, parameter_placement>> some) {
  return {some, axis_view::experts};
}

shape whole_extents(const parameter_spec& x) {
  return x.valid_rows < 0 ? x.extents : with(x.extents, 0, x.valid_rows);
}

shape local_extents(const parameter_spec& x, const axis_ranks& ranks) {
  ensure(!x.stacked
             || (x.extents.rank() > 1 && x.valid_rows < 0 && x.tied_to.empty() && !x.has_copies),
         "STACK-2: a stack has matrices without padding rows, and no ties");
  auto out = x.extents;
  const int rows = x.stacked ? 1 : 0;
  for_each_cut(x, ranks, [&](const parameter_placement& lies, axis_rank at) {
    ensure(lies.dimension < out.rank() && (lies.sections == 1 || lies.dimension == rows)
               && out[lies.dimension] % (std::int64_t(at.size) * lies.sections) == 0,
           "PARAMETER-1: each axis divides the extent that it shards");
    out = with(out, lies.dimension, out[lies.dimension] / at.size);
  });
  return out;
}

std::vector<box> local_boxes(const parameter_spec& x, const axis_ranks& ranks) {
  const auto all = whole_extents(x);
  // A rank may hold several intervals of rows, but only one of any other dimension. The rows of a
  // stack are in its second dimension.
  std::vector<std::vector<interval>> kept;
  for (int d = 0; d < all.rank(); ++d)
    kept.push_back({{0, x.extents[d]}});
  for_each_cut(x, ranks, [&](const parameter_placement& lies, axis_rank at) {
    auto& of = kept[std::size_t(lies.dimension)];
    of = part_of(of, lies.sections, at);
  });
  auto inner = whole(all);
  for (int d = 1; d < all.rank(); ++d) {
    const auto& only = kept[std::size_t(d)].front();
    inner = between(inner, d, only.first, only.end);
  }
  std::vector<box> out;
  for (const auto& rows : kept.front()) {
    const auto end = std::min(rows.end, all[0]);
    if (end <= rows.first)
      continue;
    if (!x.stacked || kept[1].size() == 1) {
      out.push_back(between(inner, 0, rows.first, end));
      continue;
    }
    for (auto matrix = rows.first; matrix < end; ++matrix)
      for (const auto& section : kept[1])
        out.push_back(
            between(between(inner, 0, matrix, matrix + 1), 1, section.first, section.end));
  }
  return out;
}

std::int64_t shard_index(const parameter_spec& x, const axis_ranks& ranks, std::int64_t matrix) {
  auto out = x.stacked ? matrices_of(x, ranks).first + matrix : 0;
  for_each_cut(x, ranks, [&](const parameter_placement& lies, axis_rank at) {
    if (!x.stacked || lies.dimension > 0)
      out = out * at.size + at.rank;
  });
  return out;
}

matrix_run matrices_of(const parameter_spec& x, const axis_ranks& ranks) {
  const auto here = local_extents(x, ranks);
  if (!x.stacked)
    return {.each = here.size()};
  std::int64_t part = 0;
  for_each_cut(x, ranks, [&](const parameter_placement& lies, axis_rank at) {
    if (lies.dimension == 0)
      part = part * at.size + at.rank;
  });
  return {.first = part * here[0], .count = here[0], .each = here.size() / here[0]};
}

parameter_spec one_of(const parameter_spec& x) {
  auto out = x;
  if (!x.stacked)
    return out;
  out.stacked = false;
  out.extents = {};
  for (int i = 1; i < x.extents.rank(); ++i)
    out.extents.push_back(x.extents[i]);
  for (const auto& row : axis_table())
    if (auto& lies = out.placements[row.id]; lies.sharded() && --lies.dimension < 0)
      lies.sections = 1;
  return out;
}

axis axis_of_matrices(const parameter_spec& x) {
  return x.placements.view() == axis_view::experts ? axis::expert_tensor : axis::tensor;
}

bool answers(const parameter_spec& x, const axis_ranks& ranks) {
  return std::all_of(axis_table().begin(), axis_table().end(), [&](const axis_row& row) {
    return x.placements.use(row.id) != axis_use::model || x.placements[row.id].sharded()
           || ranks[row.id].rank == 0;
  });
}

}  // namespace troupe::runtime
