// A job description in decoded form, with the seats and the pipeline that follow from it.

#pragma once

#include "messages/control/spawn.hpp"
#include "runtime/job/job_json.hpp"
#include "runtime/job/job_seats.hpp"
#include "runtime/job/pipeline.hpp"
#include "runtime/layout/process_map.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe::actors {

/// Immutable.
struct opened_job {
  opened_job(runtime::training_job of, runtime::seats all, runtime::job_pipeline cut);

  runtime::training_job job;
  runtime::seats seats;
  runtime::job_pipeline pipeline;  ///< chunks, their ranks, and the plans of steps
  runtime::process_map placed;     ///< the process of each rank
  int span;                        ///< replicas that verify passes together: see seats::span
  /// By rank: the first of the ranks with equal parameters.
  runtime::by_view<std::vector<int>> first_alike = {};
  runtime::by_view<std::vector<int>> index_alike = {};  ///< by rank: its index among these ranks
  runtime::by_view<int> alike_each = {};                ///< number of ranks that are alike
  std::vector<bool> with_writer = {};                   ///< by replica: one of its ranks writes

  int replicas() const { return seats.replicas(); }
  int pipeline_ranks() const { return seats.extent(runtime::axis::pipeline); }
  /// The stage's name in logs and for viewers: "stage:1.0", with several tensor ranks
  /// "stage:1.0.2".
  std::string stage_name(int rank) const { return "stage:" + seats.name(rank); }
  /// True if the rank's reports of these layers count, and it writes them to checkpoints: others
  /// have the same, unless each has a share.
  bool counts(int rank, runtime::axis_view layers) const {
    return job.reduction.distributed_optimizer || first_alike[layers][std::size_t(rank)] == rank;
  }
  bool writes(int rank) const {
    return counts(rank, runtime::axis_view::dense) || counts(rank, runtime::axis_view::experts);
  }
  bool has_writer(int replica) const { return with_writer[std::size_t(replica)]; }
  /// Logical replicas per physical replica.
  int replicas_each() const { return job.layout.replicas_per_worker; }
};

/// The jobs of a process; each is decoded and scheduled once. Any thread.
class job_registry {
 public:
  /// Registers functions that jobs refer to by name.
  void add(const runtime::registered_functions& known);

  /// Throws input_error as job_from_json and pipeline_of do.
  std::shared_ptr<const opened_job> open(const messages::job_description& description);

 private:
  std::mutex mutex_;
  runtime::registered_functions known_;
  std::map<std::string, std::shared_ptr<const opened_job>> jobs_;  ///< by settings
};

}  // namespace troupe::actors
