#include "runtime/layout/seats.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace troupe::runtime {
namespace {

/// The axes of dense layers along which ranks share a stage.
axis_set within_stage() {
  return axes_where([](const axis_row& x) { return splits_replica(x.dense); });
}

/// The axes along which stages of a replica differ, the slowest first.
std::vector<axis> axes_of_stages() {
  std::vector<axis> out = {axis::pipeline};
  for (const auto& row : axis_table())
    if (splits_replica(row.dense))
      out.push_back(row.id);
  return out;
}

}  // namespace

seats::seats(mesh dense, mesh experts) : dense_(std::move(dense)), experts_(std::move(experts)) {}

const mesh& seats::view_of(axis a) const {
  return row_of(a).experts == axis_use::none ? dense_ : experts_;
}

coordinates seats::extents() const {
  coordinates out;
  for (const auto& row : axis_table())
    out[row.id] = extent(row.id);
  return out;
}

coordinates seats::at(int rank) const {
  const auto dense = dense_.at(rank), experts = experts_.at(rank);
  coordinates out;
  for (const auto& row : axis_table())
    out[row.id] = (&view_of(row.id) == &dense_ ? dense : experts)[row.id];
  return out;
}

int seats::rank(const coordinates& at) const {
  coordinates dense;
  for (const auto& row : axis_table())
    if (&view_of(row.id) == &dense_)
      dense[row.id] = at[row.id];
  return dense_.rank(dense);
}

int seats::beside(int rank, axis along, int position) const {
  return dense_.rank(dense_.at(rank).with(along, position));
}

std::vector<int> seats::peers(int rank, axis_set along) const {
  const auto has_axes_of = [along](axis_view layers) {
    return along.meets(
        axes_where([layers](const axis_row& x) { return x.use(layers) != axis_use::none; }));
  };
  const bool of_experts = has_axes_of(axis_view::experts);
  ensure(!of_experts || !has_axes_of(axis_view::dense),
         "SEATS-2: ranks differ along axes of one mesh");
  return (of_experts ? experts_ : dense_).group(rank, along);
}

axis_set seats::summed(axis_set along) const {
  return axes_where([&](const axis_row& x) {
    return along.has(x.id)
           && (extent(x.id) > 1 || x.dense == axis_use::data || x.experts == axis_use::data);
  });
}

int seats::stages() const {
  int out = 1;
  for (const auto a : axes_of_stages())
    out *= extent(a);
  return out;
}

int seats::stage_index(int rank) const {
  const auto where = dense_.at(rank);
  int out = 0;
  for (const auto a : axes_of_stages())
    out = out * extent(a) + where[a];
  return out;
}

int seats::rank_of_stage(int replica, int index) const {
  coordinates where = {{axis::data, replica}};
  const auto all = axes_of_stages();
  for (auto a = all.rbegin(); a != all.rend(); index /= extent(*a++))
    where[*a] = index % extent(*a);
  return dense_.rank(where);
}

std::vector<int> seats::replica(int r) const {
  std::vector<int> out;
  for (int s = 0; s < stages(); ++s)
    out.push_back(rank_of_stage(r, s));
  return out;
}

std::string seats::position_in_stage(int rank, axis_set without, bool with_tensor) const {
  const auto where = at(rank);
  std::string out;
  for (const auto& row : axis_table())
    if (row.splits_replica() && row.dense != axis_use::none && !without.has(row.id)
        && (extent(row.id) > 1 || (with_tensor && row.id == axis::tensor)))
      out += fmt::format(".{}", where[row.id]);
  return out;
}

std::string seats::name(int rank) const {
  const auto where = dense_.at(rank);
  return fmt::format(
      "{}.{}{}", where[axis::data], where[axis::pipeline], position_in_stage(rank, {}, false));
}

std::string seats::title_of(axis_set along) {
  std::string out;
  for (const auto& row : axis_table())
    if (along.has(row.id))
      out.append(out.empty() ? "" : " and ").append(row.title);
  return out;
}

std::string seats::name_of_group(int rank, axis_set along, std::string of) const {
  const int first = peers(rank, along).front();
  const auto where = at(first);
  bool splits = true, of_experts = false;
  for (const auto& row : axis_table())
    if (along.has(row.id)) {
      splits = splits && row.splits_replica();
      of_experts = of_experts || row.experts != axis_use::none;
    }
  auto position = of_experts && !splits ? std::string() : position_in_stage(first, along, !splits);
  for (const auto& row : axis_table())
    if (of_experts && !splits && runtime::splits_replica(row.experts) && extent(row.id) > 1)
      position += fmt::format(".{}{}", row.name, where[row.id]);
  if (of.empty())
    of = splits ? fmt::format("stage {}.{}", where[axis::data], where[axis::pipeline])
                : fmt::format("pipeline rank {}", where[axis::pipeline]);
  return fmt::format("{} of {}{}", title_of(along), of, position);
}

bool seats::leads(int rank) const {
  return peers(rank, within_stage()).front() == rank;
}

std::vector<int> seats::followers(int rank) const {
  auto out = peers(rank, within_stage());
  if (out.front() != rank)
    return {};
  out.erase(out.begin());
  return out;
}

bool seats::is_first(int rank, axis_set along) const {
  return peers(rank, along).front() == rank;
}

// SEATS-1.
std::vector<int> seats::alike(int rank, axis_view layers) const {
  return (layers == axis_view::dense ? dense_ : experts_)
      .group(rank, axes_where([layers](const auto& x) { return sums_gradients(x.use(layers)); }));
}

int seats::span() const {
  const auto within = axes_where([](const axis_row& x) { return splits_replica(x.experts); });
  const auto replica_of = [this](int rank) { return dense_.at(rank)[axis::data]; };
  int out = 0;
  for (const auto& group : experts_.groups(within)) {
    std::set<int> covered;
    for (const int rank : group)
      covered.insert(replica_of(rank));
    if (out == 0)
      out = int(covered.size());
    const int first = *covered.begin();
    if (first % out != 0 || *covered.rbegin() != first + out - 1 || int(covered.size()) != out)
      return 0;
  }
  for (int rank = 0; rank < size(); ++rank) {
    const int other = beside(rank, axis::data, (replica_of(rank) + out) % replicas());
    const auto here = experts_.at(rank), there = experts_.at(other);
    for (const auto& row : axis_table())
      if (within.has(row.id) && here[row.id] != there[row.id])
        return 0;
  }
  return out;
}

}  // namespace troupe::runtime
