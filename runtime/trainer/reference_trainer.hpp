// Training without actors: the reference that each arrangement of actors must reproduce bit by bit.

#pragma once

#include "runtime/collective/communicator.hpp"
#include "runtime/data/batch_source.hpp"
#include "runtime/layout/seats.hpp"
#include "runtime/telemetry/step_report.hpp"
#include "runtime/trainer/decision.hpp"
#include "runtime/trainer/worker.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The ranks that compute, and what decides the bits of a replica besides the recipe.
struct reference_layout {
  int tensor = 1;         ///< ranks along the tensor axis
  int data = 1;           ///< ranks along the data axis; it divides the logical replicas
  int expert = 1;         ///< ranks along the expert axis, among the tensor x data ranks
  int expert_tensor = 1;  ///< ranks along the expert tensor axis, among the same
  source_sums expert_sums = source_sums::by_source;
  bool sequence_parallel = false;
  std::int64_t grain = default_grain;
};

/// One worker for each rank; a data rank computes its share of the logical replicas in turn.
/// Gradients are added in the order of the replicas, so the number of data ranks changes no bit of
/// a model without experts. With experts it changes none where SUMS-1 holds. Workers join groups as
/// those of a job do (axes_of_groups). Several workers run as fibers of the calling thread, so
/// their order is always the same.
class reference_trainer {
 public:
  /// One worker. `estate`: see worker; each step is sealed there. Training resumes from an estate
  /// that holds a state; call `resume_at` for its position.
  reference_trainer(const recipe& recipe,
                    std::shared_ptr<const batch_source> data,
                    stream& stream,
                    std::shared_ptr<rank_estate> estate = {});
  /// A worker for each rank of the layout; those after the first have streams like `stream`. Throws
  /// input_error if the ranks do not fit together, or not to the logical replicas: a loss over
  /// replicas needs a data rank for each.
  reference_trainer(const recipe& recipe,
                    std::shared_ptr<const batch_source> data,
                    stream& stream,
                    const reference_layout& layout);

  /// Runs one step. Throws input_error, without any change, if the loss or gradient is not finite
  /// and no more steps may be skipped. Breaks STEP-5 or STEP-6 if ranks hold different states
  /// afterwards.
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
    int rank = 0;
    std::unique_ptr<stream> own;  ///< null: the stream of the constructor
    std::vector<std::shared_ptr<communicator>> groups;
    std::shared_ptr<communicator> replicas;  ///< see worker_groups
    std::unique_ptr<worker> by;
  };

  stream& stream_of(const place& x) { return x.own ? *x.own : stream_; }
  void join_groups();
  bool has_losses_over_replicas() const;
  /// Calls visit(place) for each rank, on a fiber if there are several.
  void on_each(const std::function<void(place&)>& visit);
  /// The number of the first logical replica that a rank computes.
  int first_replica(const place& x) const;
  /// Runs the micro-batches of a rank's replicas.
  void run_passes(place& x,
                  const batch_source& source,
                  std::uint64_t consumed,
                  const step_settings& now) const;
  /// Adds the losses of a rank's replicas. Ranks after the first of a replica have the same.
  void add_losses(const place& of, std::vector<loss_part> found, std::vector<loss_part>& to) const;
  /// The digests of the whole state, from those of all ranks.
  std::map<std::string, digest> whole_state(const std::vector<state_digests>& by_rank) const;

  recipe recipe_;
  std::vector<loss_spec> losses_;  ///< of the model
  std::shared_ptr<const batch_source> data_;
  stream& stream_;
  cancel_token token_;
  seats seats_;
  std::vector<place> places_;
  training_position at_;
};

}  // namespace troupe::runtime
