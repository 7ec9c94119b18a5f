// How much memory each worker of a job will need, found by rehearsing it.
//
// The worker that will run is built on a pool that only counts (memory_pool::shadow), and carries
// out its row of the plan with operations that do nothing: what is counted is what will be
// allocated, whatever the model, the layout or the recomputation.
//
// What a pool holds idle beside that is not counted: what lies between blocks that nothing fits
// into, and what it has asked for ahead of need, up to 512 MiB or an eighth of what it holds. On a
// device it asks ahead only while 1 GiB stays free then (has_room_ahead), and what is wholly idle
// goes back when another pool needs it.

#pragma once

#include "runtime/layout/mesh.hpp"
#include "runtime/trainer/pipeline.hpp"

#include <cstdint>
#include <vector>

namespace troupe::runtime {

/// What a rank hands on to a stage of another one.
struct handoff_forecast {
  handoff what;
  std::int64_t bytes = 0;  ///< of each result

  friend bool operator==(const handoff_forecast&, const handoff_forecast&) = default;
};

/// Bytes, as the pool hands them out: rounded up by at most a quarter.
struct memory_forecast {
  std::int64_t parameters = 0;  ///< values
  /// f32, of each logical replica that the worker plays. Where those of a unit take the memory of
  /// its values (worker::update), what they need beyond that.
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;  ///< moments, and masters where values are rounded
  /// The state of the step before, where a worker keeps it (worker_settings::keeps_previous).
  std::int64_t beside = 0;
  /// What a training step needs beyond that, at most, where nobody is late to take what is handed
  /// on. A worker that sums gradients with nobody has memory for them from the backward pass to the
  /// update only: what of its activations is freed before they come has their memory, and is not
  /// counted again here.
  std::int64_t activations = 0;
  /// Gradients that ranks which are late leave with this one, at most: all that their credits
  /// allow, but one. What they leave of activations is among `activations`: those are held until
  /// their gradients have come, or, where the next stage takes copies, as many as its credits
  /// allow.
  std::int64_t left_by_others = 0;
  /// What is held of passes that others compute again, and of one of theirs beside what computing
  /// it needs, which is among `activations`: of any rank of the stage, in the first steps, at most.
  std::int64_t verified = 0;
  std::int64_t snapshot = 0;  ///< what a checkpoint copies, until it is written
  /// One state of the rank as another process keeps it, and without rounding: not of the worker's
  /// memory (process_forecast.hpp).
  std::int64_t state = 0;
  std::vector<handoff_forecast> handoffs = {};  ///< by chunks, activations first

  friend bool operator==(const memory_forecast&, const memory_forecast&) = default;

  /// The most that training needs; while a checkpoint is written up to `snapshot` more.
  std::int64_t peak() const {
    return parameters + gradients + optimizer + beside + activations + left_by_others + verified;
  }
};

/// Of each pipeline rank: whether tensors that pass between it and the rank with these coordinates
/// are there twice, with who has made them until they are taken, and with who takes them: it stands
/// in another process, or all tensors go over the wire.
std::vector<char> copies_handoffs(const training_job& job, const coordinates& at);

/// Of the rank with these coordinates: it carries out its row of the plan on memory that is only
/// counted: next to none, and some microseconds for each action and layer.
memory_forecast forecast_memory(const training_job& job,
                                const job_pipeline& pipeline,
                                const coordinates& at);
memory_forecast forecast_memory(const training_job& job, const coordinates& at);

/// Workers of a stage that need the same.
struct forecast_group {
  int pipeline = 0;
  int first_data = 0, last_data = 0;  ///< data ranks, neighbours
  int ranks = 0;                      ///< workers, over all tensor ranks of these
  memory_forecast need;               ///< of tensor rank 0: the others save less
};

/// Of all workers of the job, by stages and data ranks. Rehearses one worker of each stage, and of
/// the others only what is theirs alone: their share of the optimizer.
std::vector<forecast_group> forecast_workers(const training_job& job);

}  // namespace troupe::runtime
