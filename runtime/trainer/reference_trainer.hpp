// Training without a single actor: the judge that every arrangement of actors must reproduce.

#pragma once

#include "runtime/collective/local/local_group.hpp"
#include "runtime/optim/schedules.hpp"
#include "runtime/telemetry/step_report.hpp"
#include "runtime/trainer/batch_source.hpp"
#include "runtime/trainer/worker.hpp"

#include <memory>

namespace troupe::runtime {

struct recipe {
  gpt_config model;
  extension own = {};  ///< what of the model is the user's
  std::uint64_t seed = 1234;
  adamw_settings optimizer;
  rate_schedule rate;
  own_rate rate_of = {};  ///< in place of `rate`, where its function is given
  batch_schedule batch;   ///< data_parallel: the logical replicas

  /// Of parameters and activations: f32 or bf16 (--bf16). Master weights, moments and gradients are
  /// f32 always.
  dtype precision = dtype::f32;
};

/// One worker holds the whole model on one tensor rank and plays every logical replica in turn,
/// each with its own gradients, which are then added in rank order: the same sums as of as many
/// workers.
class reference_trainer {
 public:
  reference_trainer(const recipe& how, std::shared_ptr<const batch_source> data, stream& on);

  /// One step. Throws input_error when the loss or the gradient is not finite.
  step_report step();

  /// Mean loss over `batches` global batches from `source`, without dropout; nothing changes.
  double evaluate(const batch_source& source, std::int64_t batches);

  worker& state() { return worker_; }
  std::uint64_t iteration() const { return iteration_; }
  std::uint64_t consumed_samples() const { return consumed_; }
  void resume_at(std::uint64_t iteration, std::uint64_t consumed);

 private:
  recipe recipe_;
  std::shared_ptr<const batch_source> data_;
  local_communicator alone_;
  worker worker_;
  std::uint64_t iteration_ = 0;
  std::uint64_t consumed_ = 0;
};

/// The decision of step n, from the votes. Throws input_error, naming the iteration and the first
/// parameter, when a gradient is not finite.
update_decision decide(const recipe& how,
                       std::uint64_t iteration,
                       std::uint64_t consumed,
                       const square_norms& norms,
                       double* grad_norm);

}  // namespace troupe::runtime
