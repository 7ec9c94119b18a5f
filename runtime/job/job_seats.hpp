// The seats of a job's ranks, and the groups in which their workers communicate.

#pragma once

#include "runtime/job/pipeline.hpp"
#include "runtime/layout/placement.hpp"
#include "runtime/layout/seats.hpp"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Throw input_error as make_mesh and fold_experts do.
mesh dense_mesh_of(const layout_settings& layout);
seats seats_of(const layout_settings& layout);

/// The process of each rank, in runs and forecasts.
process_map placed_of(const layout_settings& layout);

/// A group that a rank joins.
struct seat_group {
  std::string name;  ///< unique in the job
  axis_set along;
  std::vector<int> members;            ///< ranks of the job, in the order of the group
  int rank = 0;                        ///< index in `members`
  std::optional<chunk_id> chunk = {};  ///< of a chunk with several copies; nothing: of the worker
  tie_holders ties = {};               ///< ties that it sums; empty for other groups
  bool of_losses = false;              ///< see worker_groups::meeting
};

/// The axes of the groups that each rank joins.
struct group_axes {
  std::vector<axis_set> passes;  ///< each axis that splits a replica and has several ranks
  std::set<axis_set> sums;       ///< of gradients
};
/// `sums`: see job_pipeline. Without parameters of experts nothing lies along their axes.
group_axes axes_of_groups(const std::set<axis_set>& sums, const seats& all);

/// All groups of a rank: one for each axis that splits a replica, one for each sum of gradients,
/// one for each set of pipeline ranks with the uses of tied parameters, and those of the replicas
/// and copies for losses over them.
std::vector<seat_group> groups_of(const job_pipeline& pipeline, const seats& all, int rank);

}  // namespace troupe::runtime
