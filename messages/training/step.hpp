// A training step is a transaction of the job:
//
//   supervisor -> replica -> stage   run_step       execute your row of the plan
//   leading stage -> its followers   chosen         the next action, if a behaviour decides
//   stage -> replica -> supervisor   vote           gradients are reduced; norms and digest
//   supervisor -> replica -> stage   decision       the update, equal for all
//   stage -> replica -> supervisor   applied        state n is complete
//   supervisor -> monitor            committed      reported only now
//
// With several processes, nodes stand between supervisor and replicas: each is a branch of the tree
// of processes (runtime/layout/process_tree.hpp). It passes orders down to the replicas of its
// process and to the branches below, and their reports up, merged (actors/host/merged_reports.hpp).
//
// An evaluation step ends with the votes.
//
// Invariants (tests name them):
//   STEP-1  No stage updates before all replicas have voted.
//   STEP-2  Ranks with equal parameters (seats::alike) vote equal digests: of all reduced
//           gradients, or, if gradients are sharded, of the values that the step was computed with.
//   STEP-3  Steps are committed once each, in ascending order.
//   STEP-4  A step begins after the previous one has ended.
//   STEP-5  Ranks with equal parameters hold equal states, unless each has a share.
//   STEP-6  Copies of a parameter on several tensor ranks or stages are equal.
//   STEP-7  A step with a loss or gradient that is not finite changes no state: all ranks skip it,
//           or the job ends.
//   STEP-8  Each replica reports a step once.
//   STEP-9  A step begins on a worker that is built.
//   STEP-10 A vote has the losses of its model and replica, each once, in the order of loss_part.
//   STEP-11 Votes and reports of new states have each rank of their replica once.
//   STEP-12 All ranks count the rows of the same experts.

#pragma once

#include "messages/core/inspect.hpp"
#include "runtime/core/exact_sum.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/layout/axis.hpp"
#include "runtime/schedule/simulate.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe::messages {

struct run_step {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t consumed = 0;  ///< samples consumed before this step, of its data set
  bool validation = false;     ///< evaluates on the validation set
  bool test = false;           ///< with `validation`: uses the test set
  /// Per replica, over all its logical replicas. Determines the plan: one row per pipeline rank,
  /// which all ranks of the stage follow.
  int microbatches = 0;
  bool timed = false;     ///< the vote reports the time of each action
  double loss_scale = 1;  ///< gradients and voted norms include this factor
  /// `consumed` and `microbatches` of the next step, so that stages request its micro-batches
  /// ahead. 0 micro-batches: no next step, or not known.
  std::uint64_t next_consumed = 0;
  int next_microbatches = 0;
  bool counts_experts = false;  ///< the vote has the rows of experts
  /// Some recomputed pass of this step differed in an earlier run, so votes have all of them, also
  /// those that agree.
  bool lists_checks = false;
};

/// Sent by the leading rank of the stage to the others, so that all execute the same action.
struct chosen {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  runtime::action action = {};
  std::uint64_t number = 0;  ///< position in the step, from 0; all ranks keep this order
};

/// A stage's message to itself: its behaviour wanted to wait, and may have been asked again since.
struct ask_again {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t question = 0;  ///< number of earlier questions
};

/// The first parameter, in the order of the backward pass, with a reduced gradient that is not
/// finite.
struct nonfinite_gradient {
  std::string parameter = {};  ///< empty if all are finite
  std::string where = {};      ///< stage, such as "0.1" or "0.1.0"
  int chunk = -1;              ///< index in the model
  int entry = -1;              ///< index in the chunk
  int rank = 0;                ///< of the job

  /// True if the backward pass reaches `x` earlier. Among equal ones, the lowest rank is reported.
  bool yields_to(const nonfinite_gradient& x) const {
    return x.chunk != chunk   ? x.chunk > chunk
           : x.entry != entry ? x.entry > entry
                              : !x.parameter.empty() && x.rank < rank;
  }
};

/// Actions of a stage with their times in ms, by the steady clock of its machine.
struct executed_row {
  int rank = 0;             ///< pipeline rank
  std::uint64_t clock = 0;  ///< machine; rows with different clocks cannot be compared directly
  std::vector<runtime::timed_action> actions = {};
};

/// Breakdown of a stage's time in a step, up to its vote.
struct stage_times {
  int replica = 0;
  int stage_index = 0;          ///< index among the stages of the replica
  double computing = 0;         ///< seconds in actions, without the following
  double redeeming = 0;         ///< seconds redeeming tensors of other ranks
  std::uint64_t redeemed = 0;   ///< bytes redeemed
  double awaiting_batches = 0;  ///< seconds idle, waiting for micro-batches
  /// Seconds waiting for other ranks: idle, for activations and gradients, and in collectives of
  /// passes.
  double awaiting_ranks = 0;
  /// Seconds in which its lane was runnable without a core; not included in the others.
  double no_core = 0;
};

/// Times of the workers of one stage that a merged vote does not list: the number of workers, by
/// bins of time (actors/host/merged_times.hpp).
struct unlisted_times {
  int stage_index = 0;
  std::map<int, int> computing = {}, redeeming = {}, awaiting_batches = {};
};

/// A pass computed by two replicas.
struct checked_pass {
  int stage_index = 0;  ///< index among the stages of the replica
  int replica = 0;      ///< computed it
  int by = 0;           ///< recomputed it
  runtime::chunk_id chunk = {};
  runtime::copy_id copy = {};
  runtime::microbatch_id microbatch = {};
  runtime::digest output = {}, output_again = {};
  runtime::digest input_gradient = {}, input_gradient_again = {};
  runtime::digest weight_gradient = {}, weight_gradient_again = {};
  /// The pass continued from gradients that already differed, so its weight gradients cannot be
  /// compared.
  bool follows_other = false;

  bool agrees() const {
    return output == output_again && input_gradient == input_gradient_again
           && (follows_other || weight_gradient == weight_gradient_again);
  }
};

/// Ranges [begin, end) of indices, ascending.
using index_ranges = std::vector<std::pair<int, int>>;

/// Reduced gradients of a rank's dense layers, or of its experts.
///
/// Merged: one entry for all alike ranks that report the same. If each has a share, one entry for
/// all with the same `bits`, with the sums of the shares.
struct voted_gradients {
  int rank = 0;  ///< of the job; merged: the lowest
  runtime::axis_view layers = {};
  std::map<std::string, runtime::exact_sum> square_norms = {};  ///< by parameter
  /// Digest of all of them. With a single replica, computed only if a gradient is not finite and
  /// the step may be repeated (VERIFY-3).
  runtime::digest bits = {};
  std::int64_t zeros = 0;  ///< zero elements, if requested
  /// Merged: its ranks, as indices among the ranks that are alike (seats::alike).
  index_ranges alike = {};
};

/// Vote of a stage, of a replica or of a branch. The latter are merged over all below.
struct vote {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  int replica = 0;  ///< of a branch: the replica of `executed`
  int rank = 0;     ///< of a stage: its rank of the job
  /// Sorted by loss_part::order. The leading rank of a stage sends those of its units.
  std::vector<runtime::loss_part> losses = {};
  std::vector<voted_gradients> gradients = {};  ///< by rank; of experts only if it has any
  nonfinite_gradient nonfinite = {};
  /// If requested: of the leading rank of the stage. A branch sends those of its slowest replica.
  std::vector<executed_row> executed = {};
  /// If stragglers are detected. Merged: of all workers of a stage, or of its slowest ones.
  std::vector<stage_times> times = {};
  std::vector<unlisted_times> other_times = {};  ///< merged: of its others; by stage
  /// Passes recomputed for other replicas. A replica sends those that differ (lists_checks).
  std::vector<checked_pass> checked = {};
  /// If requested: the choices of this rank's rows, by unit. Merged: sums.
  std::vector<runtime::expert_rows> experts = {};
  /// Merged: the sum of digests of what each rank votes about its gradients.
  runtime::digest of_ranks = {};
  int process = -1;  ///< of a branch: its place

  /// Tells the reports of a step apart that one actor receives from replicas and branches.
  std::pair<int, int> reporter() const { return {process, process < 0 ? replica : 0}; }
};

struct decision {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  bool skip = false;         ///< no update: report the unchanged state
  std::uint64_t update = 0;  ///< number of the update, from 1
  double learning_rate = 0;
  double decoupled_learning_rate = 0;  ///< of the word embedding and the output layer
  double weight_decay = 0;
  double gradient_scale = 1;
};

/// State of a rank's dense layers, or of its experts. Merged as voted_gradients are; shares add up
/// without regard to `bits`.
struct updated_state {
  int rank = 0;  ///< of the job; merged: the lowest
  runtime::axis_view layers = {};
  std::map<std::string, runtime::digest> own = {};  ///< by parameter; parts add up
  /// Digests of parameters that another rank reports. A replica sends only those that no rank of
  /// its own reports.
  std::multimap<std::string, runtime::digest> copies = {};
  runtime::digest bits = {};            ///< from the replica on: of `own` and `copies`
  runtime::exact_sum square_norm = {};  ///< of the parameters, if requested
  index_ranges alike = {};              ///< as in voted_gradients
};

/// Report of a stage, of a replica or of a branch, as a vote.
struct applied {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  int replica = 0;                        ///< of a branch: the replica of `unlike`
  int rank = 0;                           ///< of a stage: its rank of the job
  std::vector<updated_state> state = {};  ///< by rank; of experts only if it has any
  /// A copy that differs from its owner; empty: none. Stages do not tell it, and a branch sends
  /// that of the lowest replica.
  std::string unlike = {};
  int process = -1;  ///< of a branch: its place

  std::pair<int, int> reporter() const { return {process, process < 0 ? replica : 0}; }
};

/// Sent to the monitor and to viewers.
struct committed {
  runtime::step_report report;
  /// Timeline of the slowest replica, if requested. Its plan had this many micro-batches.
  std::vector<executed_row> executed = {};
  int microbatches = 0;
  std::uint64_t fact = 0;  ///< number of the report to the monitor, from 1
  runtime::generation_id generation = {};
  bool traced = false;  ///< a command requested the timeline of this step
};

struct validated {
  runtime::validation_report report;
  std::uint64_t fact = 0;
  runtime::generation_id generation = {};
};

/// A failure and its outcome.
struct happened {
  runtime::run_event event;
  std::uint64_t fact = 0;
  runtime::generation_id generation = {};
};

}  // namespace troupe::messages
