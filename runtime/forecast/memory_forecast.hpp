// Forecasts the memory of each worker of a job by rehearsing it.
//
// Builds the real worker on a pool that only counts (memory_pool::shadow) and runs its row of the
// plan with operations that do nothing. So the forecast counts exactly the allocations of the run,
// for each model, layout and recomputation.
//
// It does not count memory that a pool holds idle: gaps between blocks, and memory that it reserves
// ahead (up to 512 MiB or an eighth of what it holds). On a device a pool reserves ahead only while
// 1 GiB stays free (has_room_ahead); fully idle memory goes back when another pool needs it.

#pragma once

#include "runtime/job/pipeline.hpp"
#include "runtime/layout/mesh.hpp"

#include <cstdint>
#include <vector>

namespace troupe::runtime {

/// The results that a rank sends to a stage on another rank.
struct handoff_forecast {
  handoff what;
  std::int64_t bytes = 0;  ///< of each result

  friend bool operator==(const handoff_forecast&, const handoff_forecast&) = default;
};

/// Bytes as the pool allocates them, rounded up by at most a quarter.
struct memory_forecast {
  std::int64_t parameters = 0;  ///< values
  /// fp32, for each logical replica that the worker computes. If the gradients of a unit reuse the
  /// memory of its values (worker::update), only the bytes beyond that memory.
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;  ///< moments, and masters of rounded values
  /// The state of the previous step, if the worker keeps it (worker_settings::keeps_previous).
  std::int64_t beside = 0;
  /// Peak of a training step beyond the above, if every receiver takes results in time. A worker
  /// that does not reduce gradients with others has memory for them only from the backward pass to
  /// the update. Activations that are freed before use the same memory and are not counted twice.
  std::int64_t activations = 0;
  /// Maximum of gradients that late receivers leave on this rank: all that their credits allow, but
  /// one. `activations` includes late activations: they are held until their gradients arrive or,
  /// if the next stage takes copies, up to its number of credits.
  std::int64_t left_by_others = 0;
  /// Data of the passes that other replicas compute again, and of one of their passes while this
  /// rank computes it; `activations` includes the working memory of that pass. Maximum over the
  /// ranks of the stage and the first steps.
  std::int64_t verified = 0;
  std::int64_t snapshot = 0;  ///< copied for a checkpoint until it is written
  /// One state of the rank as another process keeps it, without rounding; not in the worker's
  /// memory (process_forecast.hpp).
  std::int64_t state = 0;
  std::vector<handoff_forecast> handoffs = {};  ///< by chunk, activations first
  /// Not memory: the bytes that the rank receives from others in a step, by axis. Sums and gathers
  /// count as in a ring.
  axis_map<std::int64_t> received = {};

  friend bool operator==(const memory_forecast&, const memory_forecast&) = default;

  /// Peak of training; writing a checkpoint needs up to `snapshot` more.
  std::int64_t peak() const {
    return parameters + gradients + optimizer + beside + activations + left_by_others + verified;
  }
};

/// For each pipeline rank: nonzero if tensors between it and the rank at these coordinates exist
/// twice, in the sender until taken and in the receiver. This is the case between processes, or if
/// all tensors go over UCX.
std::vector<char> copies_handoffs(const training_job& job, const coordinates& at);

/// Forecast for the rank at these coordinates. Needs almost no memory, and some microseconds for
/// each action and layer. `expert_load`: rows that the rank's experts get, divided by the balanced
/// number.
memory_forecast forecast_memory(const training_job& job,
                                const job_pipeline& pipeline,
                                const coordinates& at,
                                double expert_load = 1);
memory_forecast forecast_memory(const training_job& job, const coordinates& at);

/// The largest load of a rank's experts: all rows choose as many of them as they may, up to the
/// capacity. 0: the model has no experts.
double most_expert_load(const training_job& job);

/// Workers of a stage with equal needs.
struct forecast_group {
  int pipeline = 0;
  int first_data = 0, last_data = 0;  ///< a contiguous range of data ranks
  int ranks = 0;                      ///< workers, all of these stages
  memory_forecast need;               ///< of the leading ranks; their followers store less
};

/// Forecast for all workers, by stage and data rank. Rehearses one worker of each stage; for its
/// other data ranks, only what differs (their shares of the optimizer).
std::vector<forecast_group> forecast_workers(const training_job& job, double expert_load = 1);

}  // namespace troupe::runtime
