#include "runtime/job/job_seats.hpp"

#include <algorithm>
#include <fmt/ranges.h>
#include <set>
#include <utility>

namespace troupe::runtime {
namespace {

int index_in(const std::vector<int>& members, int rank) {
  return int(std::find(members.begin(), members.end(), rank) - members.begin());
}

/// The group of a chunk with several copies: a copy acts as a replica, with its stages on other
/// ranks. The replicas of one copy follow those of another, so each group of expert ranks is a run
/// of replicas, as without copies (SUMS-1).
seat_group group_of_copies(const pipeline_schedule& schedule,
                           const chunk_copy& x,
                           const seats& all,
                           int rank,
                           axis_set along) {
  const auto peers = all.peers(rank, along);
  seat_group out{.name = all.name_of_group(rank, along, fmt::format("chunk {}", value(x.chunk))),
                 .along = along,
                 .rank = int(value(x.copy) * peers.size()) + index_in(peers, rank),
                 .chunk = x.chunk};
  for (int copy = 0; copy < schedule.copies(); ++copy)
    for (const int peer : peers)
      out.members.push_back(all.beside(
          peer, axis::pipeline, schedule.rank_of(x.chunk, copy_id(std::uint32_t(copy)))));
  return out;
}

/// The groups of ties on several pipeline ranks. Members are pipeline ranks, in the order of the
/// uses of the group's first tie.
std::vector<seat_group> groups_of_ties(const job_pipeline& pipeline) {
  std::vector<seat_group> out;
  for (const auto& tie : pipeline.ties)
    for (int copy = 0; copy < pipeline.schedule->copies(); ++copy) {
      const tied_copy which = {tie.owner, copy_id(std::uint32_t(copy))};
      const auto uses = pipeline.ranks_of(tie, which.second);
      const std::set<int> ranks(uses.begin(), uses.end());
      if (ranks.size() == 1)
        continue;
      auto group = std::find_if(out.begin(), out.end(), [&](const auto& x) {
        return std::set<int>(x.members.begin(), x.members.end()) == ranks;
      });
      if (group == out.end())
        group = out.insert(out.end(), {.along = axis::pipeline});
      for (const int use : uses) {
        auto& members = group->members;
        if (index_in(members, use) == int(members.size()))
          members.push_back(use);
        group->ties[which].push_back(index_in(members, use));
      }
    }
  return out;
}

}  // namespace

mesh dense_mesh_of(const layout_settings& layout) {
  constexpr int context = 1;  // a job has no setting for this axis yet
  return make_mesh(layout.world, layout.tensor, context, layout.pipeline, layout.order);
}

seats seats_of(const layout_settings& layout) {
  auto dense = dense_mesh_of(layout);
  auto experts = fold_experts(dense, layout.expert, layout.expert_tensor_ranks());
  return {std::move(dense), std::move(experts)};
}

process_map placed_of(const layout_settings& layout) {
  return near_ranks(dense_mesh_of(layout), layout.processes);
}

group_axes axes_of_groups(const std::set<axis_set>& sums, const seats& all) {
  group_axes out;
  const bool has_experts
      = std::any_of(sums.begin(), sums.end(), [](auto sum) { return sum.has(axis::expert_data); });
  for (const auto& row : axis_table())
    if (row.splits_replica() && all.extent(row.id) > 1
        && (row.dense != axis_use::none || has_experts))
      out.passes.emplace_back(row.id);
  for (const auto sum : sums)  // different sums may have the same axes of extent above 1
    out.sums.insert(all.summed(sum));
  out.sums.erase(axis_set());
  return out;
}

std::vector<seat_group> groups_of(const job_pipeline& pipeline, const seats& all, int rank) {
  std::vector<seat_group> out;
  const auto add_along = [&](axis_set along) {
    auto members = all.peers(rank, along);
    const int at = index_in(members, rank);
    out.push_back({all.name_of_group(rank, along), along, std::move(members), at});
  };
  const auto axes = axes_of_groups(pipeline.sums, all);
  for (const auto along : axes.passes)
    add_along(along);
  const auto& schedule = *pipeline.schedule;
  const int stage = all.at(rank)[axis::pipeline];
  for (const auto along : axes.sums) {
    if (schedule.copies() == 1)
      add_along(along);
    else
      for (const auto& x : schedule.hosted_by(stage))
        out.push_back(group_of_copies(schedule, x, all, rank, along));
  }
  const auto ties = groups_of_ties(pipeline);
  for (auto group : ties) {
    group.rank = index_in(group.members, stage);
    if (group.rank == int(group.members.size()))
      continue;
    group.name = fmt::format(
        "ties of replica {}{}", all.at(rank)[axis::data], all.position_in_stage(rank));
    if (ties.size() > 1)
      group.name += fmt::format(" on pipeline ranks {}", fmt::join(group.members, ", "));
    for (int& member : group.members)
      member = all.beside(rank, axis::pipeline, member);
    out.push_back(std::move(group));
  }
  if (pipeline.has_losses_over_replicas) {
    const auto first = out.size();
    if (all.replicas() > 1)
      add_along(axis::data);
    if (schedule.copies() > 1)
      for (const auto& x : schedule.hosted_by(stage))
        out.push_back(group_of_copies(schedule, x, all, rank, axis::data));
    for (auto i = first; i < out.size(); ++i) {
      out[i].name += ", in passes";
      out[i].of_losses = true;
    }
  }
  return out;
}

}  // namespace troupe::runtime
