// What is said of one committed step.

#pragma once

#include "runtime/core/double_bits.hpp"
#include "runtime/core/hash.hpp"

#include <cstdint>
#include <string>

namespace troupe::runtime {

/// Steps without an update, because their loss or gradient was not finite. Part of a training's
/// state: the learning rate and the correction of the moments count only the others.
struct skipped_steps {
  std::uint64_t iterations = 0;  ///< since the beginning of the training
  std::uint64_t samples = 0;     ///< that they read
  std::uint64_t nan = 0;         ///< of them, those whose loss was not finite
  std::uint64_t in_a_row = 0;    ///< the newest ones; 0: the newest step was updated with

  friend bool operator==(const skipped_steps&, const skipped_steps&) = default;
};

/// By what the loss is multiplied in fp16: part of a training's state
/// (runtime/optim/loss_scale.hpp).
struct loss_scale {
  double value = 0;              ///< 0: it is not, in fp32 and bf16
  std::int64_t finite = 0;       ///< steps in a row that were, since the scale changed
  std::int64_t hysteresis = 0;   ///< steps that are not finite before the scale falls
  std::uint64_t at_minimum = 0;  ///< the newest steps, if not finite though it could not fall

  bool is_used() const { return value > 0; }
  double factor() const { return is_used() ? value : 1; }

  friend bool operator==(const loss_scale&, const loss_scale&) = default;
};

/// How a step went through the pipeline, by the first tensor rank of each stage of the slowest
/// replica.
struct pipeline_times {
  double ms = -1;         ///< from the first action to the end of the last; negative: not measured
  double planned_ms = 0;  ///< the same by the plan, with the mean time that each action took
  double bubble = 0, planned_bubble = 0;  ///< share of the stages' time in which they waited
  double gap_ms = 0;       ///< usual, between two actions of a stage that had all they need
  double hand_off_ms = 0;  ///< usual, from one stage to another that waits
  double late_ms = 0, worst_late_ms = 0;  ///< an action's begin behind its planned one

  friend bool operator==(const pipeline_times&, const pipeline_times&) = default;
};

struct step_report {
  std::uint64_t iteration = 0;         ///< 1 is the first
  std::uint64_t consumed_samples = 0;  ///< after this step
  std::uint64_t consumed_tokens = 0;   ///< the same in tokens
  std::int64_t global_batch_size = 0;
  double lm_loss = 0;        ///< mean over the tokens of the step that count
  double grad_norm = 0;      ///< before clipping; infinite where it is not finite
  double learning_rate = 0;  ///< that this step's update used
  double elapsed_ms = 0;
  double tokens_per_second = 0;
  double flops_per_second = 0;
  digest state;                      ///< parameters and moments after this step
  skipped_steps skipped;             ///< after this step
  loss_scale scale;                  ///< after this step
  double params_norm = -1;           ///< after this step; negative: nobody asked
  std::int64_t zero_gradients = -1;  ///< elements of the reduced gradients; negative: nobody asked

  pipeline_times pipeline = {};

  bool was_skipped() const { return skipped.in_a_row > 0; }

  friend bool operator==(const step_report&, const step_report&) = default;
};

struct validation_report {
  std::uint64_t iteration = 0;
  double loss = 0;
  bool test = false;  ///< of the test set

  friend bool operator==(const validation_report&, const validation_report&) = default;
};

/// What a restart took, in seconds. `release` and `respawn` begin with the news and go on beside
/// each other; `transfer` and `rebuild` follow both, one after the other.
struct restart_parts {
  std::uint64_t news_ns = 0;  ///< when it was heard, by the steady clock of that machine
  double release = 0;         ///< until nobody of the generation was left where processes live on
  double respawn = 0;         ///< until those processes stood that were started; 0: none had to be
  double transfer = 0;        ///< until each rank had its state from a keeper; 0: it was there
  double rebuild = 0;         ///< until the next step began, a look at local disks included

  friend bool operator==(const restart_parts&, const restart_parts&) = default;
};

/// Somebody died and was replaced, a service is done without, wrong bits were found, or a worker is
/// slow.
struct run_event {
  std::uint64_t iteration = 0;  ///< the newest that was committed
  /// "restart", "move", "rerun", "replaced", "given up", "wrong bits", "not finite", "straggler"
  std::string kind;
  std::string who;  ///< the first that died; who is guilty, or slow
  std::string why;  ///< with the names of those who passed it on
  /// Where its state came from: "estate", "keeper", "local disk", "disk", "start"; or empty.
  std::string from;
  std::uint64_t resumed = 0;     ///< of a restart: the iteration whose state it went on from
  std::uint64_t generation = 0;  ///< that follows, as a number
  double seconds = 0;            ///< from the news of the death until work went on
  restart_parts parts = {};      ///< of a restart: of these seconds
  /// Of wrong bits: "outvoted", "transient", "persistent" or "irreproducible"; of what is not
  /// finite: "reproducible"; of a straggler: "compute", "link", "input" or "over". Of a restart:
  /// "wrong bits", where a process was replaced because of those; else empty.
  std::string verdict = {};

  friend bool operator==(const run_event&, const run_event&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, run_event& x) {
  return f(x.iteration,
           x.kind,
           x.who,
           x.why,
           x.from,
           x.resumed,
           x.generation,
           x.seconds,
           x.parts.news_ns,
           x.parts.release,
           x.parts.respawn,
           x.parts.transfer,
           x.parts.rebuild,
           x.verdict);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, digest& x) {
  return f(x.high, x.low);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, skipped_steps& x) {
  return f(x.iterations, x.samples, x.nan, x.in_a_row);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, loss_scale& x) {
  return f(x.value, x.finite, x.hysteresis, x.at_minimum);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, pipeline_times& x) {
  return f(x.ms,
           x.planned_ms,
           x.bubble,
           x.planned_bubble,
           x.gap_ms,
           x.hand_off_ms,
           x.late_ms,
           x.worst_late_ms);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, step_report& x) {
  double_bits loss(x.lm_loss), norm(x.grad_norm), parameters(x.params_norm);
  return f(x.iteration,
           x.consumed_samples,
           x.consumed_tokens,
           x.global_batch_size,
           *loss,
           *norm,
           x.learning_rate,
           x.elapsed_ms,
           x.tokens_per_second,
           x.flops_per_second,
           x.state,
           x.skipped,
           x.scale,
           *parameters,
           x.zero_gradients,
           x.pipeline);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, validation_report& x) {
  double_bits loss(x.loss);
  return f(x.iteration, *loss, x.test);
}

}  // namespace troupe::runtime
