// What the actors of one process share: everything here is immutable or safe for any thread.

#pragma once

#include "actors/support/fault_injector.hpp"
#include "runtime/collective/local/local_group.hpp"
#include "runtime/collective/nccl_group.hpp"
#include "runtime/core/cancel.hpp"
#include "runtime/device/lane.hpp"
#include "runtime/layout/mesh.hpp"
#include "runtime/telemetry/operation_profile.hpp"
#include "runtime/telemetry/trace.hpp"
#include "runtime/trainer/batch_source.hpp"
#include "runtime/trainer/pipeline.hpp"
#include "runtime/transport/transport.hpp"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace troupe::actors {

/// The memory pools of the workers of this process. Any thread.
class pool_registry {
 public:
  void add(int rank, runtime::memory_pool pool);
  /// Largest use of each so far, in bytes, by rank.
  std::map<int, std::size_t> peaks() const;

 private:
  mutable std::mutex mutex_;
  std::map<int, runtime::memory_pool> pools_;
};

struct resources {
  runtime::training_job job;
  runtime::mesh mesh;
  runtime::job_pipeline pipeline;  ///< chunks, where they stand, and the plans of steps
  runtime::memory_pool pool = {};
  std::shared_ptr<runtime::transport> transport = {};
  std::shared_ptr<const runtime::batch_source> training = {}, validation = {};
  std::shared_ptr<runtime::trace_recorder> trace = {};       ///< null: nobody watches
  std::shared_ptr<runtime::operation_profile> profile = {};  ///< null: nobody asked
  std::shared_ptr<const fault_injector> faults = {};
  std::shared_ptr<pool_registry> pools = std::make_shared<pool_registry>();
  std::function<void(runtime::worker&)> restore
      = {};  ///< fills a new worker; null: initial weights
  /// Every worker is filled: what `restore` reads may be closed. A checkpoint that is mapped keeps
  /// its space on the disk even when it is removed.
  std::function<void()> restored = {};
  std::function<std::unique_ptr<runtime::lane>(runtime::lane_settings)> make_lane
      = runtime::make_thread_lane;
  std::string identity = {};          ///< of the job; kept, because its schedule may be a file
  std::uint64_t first_iteration = 0;  ///< the state that workers start from
  std::uint64_t first_consumed = 0;
  runtime::skipped_steps first_skipped = {};
  runtime::loss_scale first_scale = {};  ///< not used: it begins anew, in fp16
  double matrix_rate = 0;  ///< products of all workers together, FLOP a second; 0: not asked for

  int replicas() const { return mesh.extent(runtime::axis::data); }
  int stages() const { return mesh.extent(runtime::axis::pipeline); }
  int tensor() const { return mesh.extent(runtime::axis::tensor); }
  int rank(int replica, int part, int t) const { return mesh.rank({t, 0, 0, replica, part}); }
  /// Ranks whose parts make up a checkpoint.
  int snapshot_parts() const {
    return stages() * tensor() * (job.reduction.distributed_optimizer ? replicas() : 1);
  }
  /// Logical replicas that each physical one plays.
  int replicas_each() const { return job.layout.replicas_per_worker; }
};

/// The groups of one generation. Any thread.
class group_registry {
 public:
  explicit group_registry(runtime::cancel_token token,
                          std::uint64_t generation = 0,
                          runtime::collectives how = runtime::collectives::local);

  /// The end of rank `rank`, on that device, in the group called `name`; the first caller makes the
  /// group. Each rank joins once, all with the same axis and size.
  std::unique_ptr<runtime::communicator> join(
      const std::string& name, runtime::axis along, int size, int rank, int device = 0);

  const runtime::cancel_token& token() const { return token_; }

 private:
  runtime::cancel_token token_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<runtime::local_group>> groups_;
  std::unique_ptr<runtime::nccl_groups> by_nccl_;  ///< null: they read each other's memory
};

}  // namespace troupe::actors
