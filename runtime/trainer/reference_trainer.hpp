// Training without actors: the reference that each arrangement of actors must reproduce bit by bit.

#pragma once

#include "runtime/collective/local/local_group.hpp"
#include "runtime/data/batch_source.hpp"
#include "runtime/telemetry/step_report.hpp"
#include "runtime/trainer/decision.hpp"
#include "runtime/trainer/worker.hpp"

#include <memory>

namespace troupe::runtime {

/// One worker holds the whole model on one tensor rank and computes all logical replicas in turn.
/// It adds their gradients in rank order: the same sums as with one worker per replica.
class reference_trainer {
 public:
  /// `estate`: see worker; each step is sealed there. Training resumes from an estate that holds a
  /// state; call `resume_at` for its position.
  reference_trainer(const recipe& recipe,
                    std::shared_ptr<const batch_source> data,
                    stream& stream,
                    std::shared_ptr<rank_estate> estate = {});

  /// Runs one step. Throws input_error, without any change, if the loss or gradient is not finite
  /// and no more steps may be skipped.
  step_report step();

  /// Mean loss over `batches` global batches of `source`, without dropout. Changes no state.
  double evaluate(const batch_source& source, std::int64_t batches);

  worker& state() { return worker_; }
  std::uint64_t iteration() const { return at_.iteration; }
  std::uint64_t consumed_samples() const { return at_.consumed; }
  const training_position& position() const { return at_; }
  /// With fp16 the loss scale starts at its initial value unless `scale` is given.
  void resume_at(std::uint64_t iteration,
                 std::uint64_t consumed,
                 skipped_steps skipped = {},
                 loss_scale scale = {});

 private:
  recipe recipe_;
  std::shared_ptr<const batch_source> data_;
  stream& stream_;
  local_communicator alone_;
  worker worker_;
  training_position at_;
};

}  // namespace troupe::runtime
