// Training without actors: the reference that each arrangement of actors must reproduce bit by bit.

#pragma once

#include "runtime/collective/communicator.hpp"
#include "runtime/data/batch_source.hpp"
#include "runtime/telemetry/step_report.hpp"
#include "runtime/trainer/decision.hpp"
#include "runtime/trainer/worker.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace troupe::runtime {

/// What decides the bits of a replica, besides the recipe.
struct reference_layout {
  int tensor = 1;  ///< ranks along the tensor axis
  bool sequence_parallel = false;
  std::int64_t grain = default_grain;
};

/// One worker for each rank that splits a replica; each computes all logical replicas in turn. It
/// adds their gradients in rank order: the same sums as with one worker per replica. Several
/// workers run as fibers of the calling thread, so their order is always the same.
class reference_trainer {
 public:
  /// One worker. `estate`: see worker; each step is sealed there. Training resumes from an estate
  /// that holds a state; call `resume_at` for its position.
  reference_trainer(const recipe& recipe,
                    std::shared_ptr<const batch_source> data,
                    stream& stream,
                    std::shared_ptr<rank_estate> estate = {});
  /// A worker for each rank of the layout; those after the first have streams like `stream`.
  reference_trainer(const recipe& recipe,
                    std::shared_ptr<const batch_source> data,
                    stream& stream,
                    const reference_layout& layout);

  /// Runs one step. Throws input_error, without any change, if the loss or gradient is not finite
  /// and no more steps may be skipped.
  step_report step();

  /// The losses over `batches` global batches of `source`, without dropout. Changes no state.
  step_losses evaluate(const batch_source& source, std::int64_t batches);

  /// The worker of the first rank.
  worker& state() { return *places_.front().by; }
  /// Calls visit(worker) for each rank.
  void each(const std::function<void(worker&)>& visit);

  std::uint64_t iteration() const { return at_.iteration; }
  std::uint64_t consumed_samples() const { return at_.consumed; }
  const training_position& position() const { return at_; }
  /// With fp16 the loss scale starts at its initial value unless `scale` is given.
  void resume_at(std::uint64_t iteration,
                 std::uint64_t consumed,
                 skipped_steps skipped = {},
                 loss_scale scale = {});

 private:
  reference_trainer(const recipe& recipe,
                    std::shared_ptr<const batch_source> data,
                    stream& stream,
                    std::shared_ptr<rank_estate> estate,
                    const reference_layout& layout);

  struct place {
    std::unique_ptr<stream> own;  ///< null: the stream of the constructor
    std::vector<std::shared_ptr<communicator>> groups;
    std::unique_ptr<worker> by;
  };

  stream& stream_of(std::size_t rank) { return places_[rank].own ? *places_[rank].own : stream_; }
  void join_groups(const reference_layout& layout);
  /// Calls visit(index) for each rank, on a fiber if there are several.
  void on_each(const std::function<void(std::size_t)>& visit);

  recipe recipe_;
  std::vector<loss_spec> losses_;  ///< of the model
  std::shared_ptr<const batch_source> data_;
  stream& stream_;
  cancel_token token_;
  std::vector<place> places_;
  training_position at_;
};

}  // namespace troupe::runtime
