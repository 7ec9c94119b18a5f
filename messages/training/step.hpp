// One step, a transaction of the job:
//
//   supervisor -> replica -> stage   run_step       carry out your row of the plan
//   stage -> its tensor peers        chosen         where a behaviour decides: the next action
//   stage -> replica -> supervisor   vote           reduced gradients stand; norms and digest
//   supervisor -> replica -> stage   decision       the update, the same for everybody
//   stage -> replica -> supervisor   applied        state n stands
//   supervisor -> monitor            committed      said only now
//
// A step that only evaluates ends with the votes.
//
// Invariants (tests name them):
//   STEP-1  Nobody updates before everybody has voted.
//   STEP-2  Replicas, where there are several, vote the same digest: of all reduced gradients, or,
//           where each holds a share of those, of the values that the step was computed with.
//   STEP-3  Steps are committed once each, in ascending order.
//   STEP-4  A step begins after the one before has ended.
//   STEP-5  Replicas that each hold the whole state hold the same.
//   STEP-6  What several tensor ranks or stages hold, they hold alike.
//   STEP-7  A step whose loss or gradient is not finite changes no state: all leave it out, or the
//           job ends.
//   STEP-8  Each replica reports of a step once.

#pragma once

#include "runtime/core/double_bits.hpp"
#include "runtime/core/exact_sum.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/schedule/simulate.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <caf/meta/type_name.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::messages {

struct run_step {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t consumed = 0;  ///< samples before this step, of the set that is read
  bool validation = false;     ///< evaluates on the validation set
  bool test = false;           ///< with `validation`: on the test set instead
  /// Of each replica, for all that it plays. The plan is a function of it, which everybody has: one
  /// row for each pipeline rank; all its tensor ranks follow it.
  int microbatches = 0;
  bool timed = false;  ///< the vote is to say what was done when
  double loss_scale
      = 1;  ///< gradients, and the norms that are voted, are of so much times the loss
  /// `consumed` and `microbatches` of the step that will follow, so that its micro-batches are
  /// asked for ahead. No micro-batches: none follows, or it is not known.
  std::uint64_t next_consumed = 0;
  int next_microbatches = 0;

  friend bool operator==(const run_step&, const run_step&) = default;
};

/// From the first tensor rank of a stage to the others: all follow one decision.
struct chosen {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  runtime::action action = {};
  std::uint64_t number = 0;  ///< counts those of the step, from 0: the order that all keep to

  friend bool operator==(const chosen&, const chosen&) = default;
};

/// To a stage by itself: its behaviour would wait, and has been asked again since or not.
struct ask_again {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  std::uint64_t question = 0;  ///< how many it had answered or left unanswered

  friend bool operator==(const ask_again&, const ask_again&) = default;
};

/// Of one logical replica.
struct loss_part {
  double total = 0;  ///< over the tokens that count
  double tokens = 0;
  int number = 0;  ///< counts the logical replicas of the physical one

  friend bool operator==(const loss_part&, const loss_part&) = default;
};

/// A parameter whose reduced gradient is not finite: the one that the backward pass came to first,
/// among all that are not.
struct nonfinite_gradient {
  std::string parameter = {};  ///< empty: all are finite
  std::string where = {};      ///< the stage: "0.1" or "0.1.0"
  int chunk = -1;              ///< of the model
  int entry = -1;              ///< counts the parameters of the chunk

  /// Whether the backward pass comes to `x` before this one; the lowest of ranks that do alike is
  /// named.
  bool yields_to(const nonfinite_gradient& x) const {
    return x.chunk != chunk ? x.chunk > chunk : x.entry > entry;
  }

  friend bool operator==(const nonfinite_gradient&, const nonfinite_gradient&) = default;
};

/// What a stage did when, by a steady clock of its machine, in ms.
struct executed_row {
  int rank = 0;  ///< in the pipeline
  std::vector<runtime::timed_action> actions = {};

  friend bool operator==(const executed_row&, const executed_row&) = default;
};

/// Where a stage's time went in a step, until its vote.
struct stage_times {
  int stage_index = 0;          ///< counts the stages of a replica
  double computing = 0;         ///< seconds of its actions, but for what follows
  double redeeming = 0;         ///< seconds in which it took what other ranks had handed on
  std::uint64_t redeemed = 0;   ///< bytes of that
  double awaiting_batches = 0;  ///< seconds in which it had nothing else to do
  double awaiting_ranks = 0;    ///< the same, for activations and gradients
  /// Seconds in which its lane could have gone on and had no core: they are in none of the others.
  double no_core = 0;

  friend bool operator==(const stage_times&, const stage_times&) = default;
};

/// A pass that two have computed.
struct checked_pass {
  int stage_index = 0;  ///< counts the stages of a replica
  int replica = 0;      ///< that needed it
  int by = 0;           ///< that has computed it again
  runtime::chunk_id chunk = {};
  runtime::copy_id copy = {};  ///< of the model
  runtime::microbatch_id microbatch = {};
  runtime::digest output = {}, output_again = {};
  runtime::digest input_gradient = {}, input_gradient_again = {};
  runtime::digest weight_gradient = {}, weight_gradient_again = {};
  /// It added to what a pass before it had left, and that one came out otherwise: its weight
  /// gradients say nothing, alike or not.
  bool follows_other = false;

  friend bool operator==(const checked_pass&, const checked_pass&) = default;
};

/// Of a stage, or merged over the stages of a replica.
struct vote {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  int replica = 0;
  int stage_index = 0;                 ///< counts the stages of a replica; of a replica: 0
  std::vector<loss_part> losses = {};  ///< of each logical replica; of the head's first rank
  std::map<std::string, runtime::exact_sum> square_norms
      = {};  ///< of reduced gradients, by parameter
  /// Of all reduced gradients that the sender holds. Where there is one replica a stage takes it
  /// only where one of them is not finite and the step may run again (VERIFY-3).
  runtime::digest gradients = {};
  std::vector<runtime::digest> by_stage = {};  ///< of a replica: the same of each of its stages
  nonfinite_gradient nonfinite = {};
  std::int64_t zeros = 0;  ///< elements of the reduced gradients that are zero, where asked for
  std::vector<executed_row> executed = {};  ///< of the first tensor rank, where asked for
  std::vector<stage_times> times = {};      ///< where slow workers are looked for
  std::vector<checked_pass> checked = {};   ///< for others

  friend bool operator==(const vote&, const vote&) = default;
};

struct decision {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  bool skip = false;         ///< no update: answer with the state as it is
  std::uint64_t update = 0;  ///< counts the updates; the first is 1
  double learning_rate = 0;
  double decoupled_learning_rate = 0;  ///< of the word embedding and the output layer
  double weight_decay = 0;
  double gradient_scale = 1;

  friend bool operator==(const decision&, const decision&) = default;
};

/// Of a stage, or merged over the stages of a replica.
struct applied {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  int replica = 0;
  int stage_index = 0;
  std::map<std::string, runtime::digest> own = {};     ///< of the state, by parameter; parts add up
  std::map<std::string, runtime::digest> copies = {};  ///< of what another rank answers for
  runtime::exact_sum square_norm = {};                 ///< of the parameters, where asked for
  std::vector<runtime::digest> by_stage = {};  ///< of a replica: own and copies of each stage
  std::string unlike = {};  ///< of a replica: a copy that is not what its owner has; empty: none

  friend bool operator==(const applied&, const applied&) = default;
};

/// Told to the monitor and to viewers.
struct committed {
  runtime::step_report report;
  /// What the stages of the slowest replica did when, where asked for; the plan was one for so many
  /// micro-batches.
  std::vector<executed_row> executed = {};
  int microbatches = 0;
  std::uint64_t fact = 0;  ///< numbers what the monitor is told, from 1
  runtime::generation_id generation = {};

  friend bool operator==(const committed&, const committed&) = default;
};

struct validated {
  runtime::validation_report report;
  std::uint64_t fact = 0;
  runtime::generation_id generation = {};

  friend bool operator==(const validated&, const validated&) = default;
};

/// Somebody died, and what became of it.
struct happened {
  runtime::run_event event;
  std::uint64_t fact = 0;
  runtime::generation_id generation = {};

  friend bool operator==(const happened&, const happened&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, run_step& x) {
  return f(caf::meta::type_name("run_step"),
           x.generation,
           x.step,
           x.consumed,
           x.validation,
           x.test,
           x.microbatches,
           x.timed,
           x.loss_scale,
           x.next_consumed,
           x.next_microbatches);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, chosen& x) {
  return f(caf::meta::type_name("chosen"), x.generation, x.step, x.action, x.number);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, ask_again& x) {
  return f(caf::meta::type_name("ask_again"), x.generation, x.step, x.question);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, executed_row& x) {
  return f(caf::meta::type_name("executed_row"), x.rank, x.actions);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, loss_part& x) {
  runtime::double_bits total(x.total);
  return f(caf::meta::type_name("loss_part"), *total, x.tokens, x.number);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, nonfinite_gradient& x) {
  return f(caf::meta::type_name("nonfinite_gradient"), x.parameter, x.where, x.chunk, x.entry);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, stage_times& x) {
  return f(caf::meta::type_name("stage_times"),
           x.stage_index,
           x.computing,
           x.redeeming,
           x.redeemed,
           x.awaiting_batches,
           x.awaiting_ranks,
           x.no_core);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, checked_pass& x) {
  return f(caf::meta::type_name("checked_pass"),
           x.stage_index,
           x.replica,
           x.by,
           x.chunk,
           x.copy,
           x.microbatch,
           x.output,
           x.output_again,
           x.input_gradient,
           x.input_gradient_again,
           x.weight_gradient,
           x.weight_gradient_again,
           x.follows_other);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, vote& x) {
  return f(caf::meta::type_name("vote"),
           x.generation,
           x.step,
           x.replica,
           x.stage_index,
           x.losses,
           x.square_norms,
           x.gradients,
           x.by_stage,
           x.nonfinite,
           x.zeros,
           x.executed,
           x.times,
           x.checked);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, decision& x) {
  runtime::double_bits scale(x.gradient_scale);
  return f(caf::meta::type_name("decision"),
           x.generation,
           x.step,
           x.skip,
           x.update,
           x.learning_rate,
           x.decoupled_learning_rate,
           x.weight_decay,
           *scale);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, applied& x) {
  return f(caf::meta::type_name("applied"),
           x.generation,
           x.step,
           x.replica,
           x.stage_index,
           x.own,
           x.copies,
           x.square_norm,
           x.by_stage,
           x.unlike);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, committed& x) {
  return f(caf::meta::type_name("committed"),
           x.report,
           x.executed,
           x.microbatches,
           x.fact,
           x.generation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, validated& x) {
  return f(caf::meta::type_name("validated"), x.report, x.fact, x.generation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, happened& x) {
  return f(caf::meta::type_name("happened"), x.event, x.fact, x.generation);
}

}  // namespace troupe::messages
