// Training without a single actor: the judge that every arrangement of actors must reproduce.

#pragma once

#include "runtime/collective/local/local_group.hpp"
#include "runtime/data/batch_source.hpp"
#include "runtime/telemetry/step_report.hpp"
#include "runtime/trainer/decision.hpp"
#include "runtime/trainer/worker.hpp"

#include <memory>

namespace troupe::runtime {

/// One worker holds the whole model on one tensor rank and plays every logical replica in turn,
/// each with its own gradients, which are then added in rank order: the same sums as of as many
/// workers.
class reference_trainer {
 public:
  /// `estate`: see worker; each step is sealed there. One that holds a state is gone on from, after
  /// `resume_at` has said where that was.
  reference_trainer(const recipe& recipe,
                    std::shared_ptr<const batch_source> data,
                    stream& stream,
                    std::shared_ptr<rank_estate> estate = {});

  /// One step. Throws input_error, with nothing changed, when the loss or the gradient is not
  /// finite and no such step may be left out any more.
  step_report step();

  /// Mean loss over `batches` global batches from `source`, without dropout; nothing changes.
  double evaluate(const batch_source& source, std::int64_t batches);

  worker& state() { return worker_; }
  std::uint64_t iteration() const { return at_.iteration; }
  std::uint64_t consumed_samples() const { return at_.consumed; }
  const training_position& position() const { return at_; }
  /// In fp16 the loss scale begins anew unless it is given.
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
