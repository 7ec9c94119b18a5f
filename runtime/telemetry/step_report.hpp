// Reports on committed steps, validations and events of a run.

#pragma once

#include "runtime/core/hash.hpp"
#include "runtime/telemetry/expert_load.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace troupe::runtime {

/// Steps without an update because their loss or gradient was not finite. Part of the training
/// state: learning rate and moment correction count only the other steps.
struct skipped_steps {
  std::uint64_t iterations = 0;  ///< since training began
  std::uint64_t samples = 0;     ///< samples of these steps
  std::uint64_t nan = 0;         ///< steps with a non-finite loss
  std::uint64_t in_a_row = 0;    ///< latest consecutive ones; 0: the latest step was applied

  friend bool operator==(const skipped_steps&, const skipped_steps&) = default;
};

/// Loss scale in fp16; part of the training state (runtime/optim/loss_scale.hpp).
struct loss_scale {
  double value = 0;              ///< 0: not used (fp32 and bf16)
  std::int64_t finite = 0;       ///< consecutive finite steps since the last change
  std::int64_t hysteresis = 0;   ///< remaining non-finite steps before the scale falls
  std::uint64_t at_minimum = 0;  ///< latest consecutive non-finite steps at the minimum scale

  bool is_used() const { return value > 0; }
  double factor() const { return is_used() ? value : 1; }

  friend bool operator==(const loss_scale&, const loss_scale&) = default;
};

/// Timing of a step in the pipeline, measured on the leading rank of each stage of the slowest
/// replica.
struct pipeline_times {
  double ms = -1;         ///< begin of the first action to end of the last; negative: not measured
  double planned_ms = 0;  ///< the same according to the plan, with mean action times
  double bubble = 0, planned_bubble = 0;  ///< share of the stages' time spent waiting
  double gap_ms = 0;                      ///< typical gap between two ready actions of a stage
  double hand_off_ms = 0;                 ///< typical time from one stage to a waiting one
  double late_ms = 0, worst_late_ms = 0;  ///< delay of an action's start against the plan

  friend bool operator==(const pipeline_times&, const pipeline_times&) = default;
};

/// Sum of one loss over the micro-batches of one replica and unit.
struct loss_part {
  double total = 0;   ///< over the tokens that count
  double tokens = 0;  ///< number of tokens that count
  /// Logical replica of the sender; in merged reports of several replicas, of the job.
  int number = 0;
  int loss = 0;           ///< index in losses_of(model)
  std::int64_t unit = 0;  ///< of the model

  /// Parts are added in this order, whichever ranks they come from (STEP-10).
  auto order() const { return std::tuple(number, unit, loss); }

  friend bool operator==(const loss_part&, const loss_part&) = default;
};

inline constexpr const char* lm_loss = "lm loss";

struct named_loss {
  std::string name;  ///< "lm loss", "load_balancing_loss"
  double mean = 0;   ///< over the tokens that count; NaN where none does

  /// Name of its field and column in logs: "lm_loss".
  std::string key() const {
    auto out = name;
    std::replace(out.begin(), out.end(), ' ', '_');
    return out;
  }

  friend bool operator==(const named_loss&, const named_loss&) = default;
};

/// True for a field of logs with the mean of a loss, or with a measure that a model reports as a
/// loss of weight 0: "lm_loss", "accuracy".
inline bool is_loss_key(std::string_view key) {
  return key.ends_with("_loss") || key == "accuracy" || key == "best_accuracy";
}

inline constexpr const char* accuracy_name = "accuracy";
inline constexpr const char* best_accuracy_name = "best accuracy";  ///< only in validations

/// The mean of one of these; empty if it is absent or NaN.
inline std::optional<double> mean_of(const std::vector<named_loss>& all, std::string_view name) {
  const auto its = std::ranges::find(all, name, &named_loss::name);
  return its == all.end() || std::isnan(its->mean) ? std::nullopt : std::optional(its->mean);
}

/// `all`, or the only loss.
inline std::vector<named_loss> by_name(const std::vector<named_loss>& all, double only) {
  return all.empty() ? std::vector<named_loss>{{lm_loss, only}} : all;
}

struct step_report {
  std::uint64_t iteration = 0;         ///< counted from 1
  std::uint64_t consumed_samples = 0;  ///< after this step
  std::uint64_t consumed_tokens = 0;   ///< after this step
  std::int64_t global_batch_size = 0;
  /// Weighted sum of the means. A loss over no token is left out; NaN if it is the first one.
  double loss = 0;
  double grad_norm = 0;      ///< before clipping; infinity if not finite
  double learning_rate = 0;  ///< of this step's update
  double elapsed_ms = 0;
  double tokens_per_second = 0;
  double flops_per_second = 0;
  digest state;                      ///< of parameters and moments after this step
  skipped_steps skipped;             ///< after this step
  loss_scale scale;                  ///< after this step
  double params_norm = -1;           ///< after this step; negative: not requested
  std::int64_t zero_gradients = -1;  ///< in the reduced gradients; negative: not requested

  pipeline_times pipeline = {};

  std::vector<named_loss> losses = {};  ///< empty: only "lm loss", with weight 1
  /// The load of each layer with experts, in model order. Empty: the step is not counted, or the
  /// model has none.
  std::vector<expert_load> experts = {};

  bool was_skipped() const { return skipped.in_a_row > 0; }
  /// No token of a step that was updated with counts for the first loss.
  bool has_no_loss() const { return !was_skipped() && std::isnan(loss); }

  friend bool operator==(const step_report&, const step_report&) = default;
};

struct validation_report {
  std::uint64_t iteration = 0;
  double loss = 0;                      ///< as in step_report
  bool test = false;                    ///< on the test set
  std::vector<named_loss> losses = {};  ///< as in step_report

  friend bool operator==(const validation_report&, const validation_report&) = default;
};

/// Adds the best accuracy of validations so far, if the model measures one. `best` becomes the
/// better of both.
inline void add_best_accuracy(validation_report& x, std::optional<double>& best) {
  const auto own = mean_of(x.losses, accuracy_name);
  if (x.test || !own)
    return;
  best = std::max(best.value_or(*own), *own);
  x.losses.push_back({best_accuracy_name, *best});
}

/// A failed process was replaced, a service was given up, wrong bits were detected, or a worker is
/// slow.
struct run_event {
  std::uint64_t iteration = 0;  ///< latest committed step
  /// "restart", "move", "rerun", "replaced", "given up", "wrong bits", "not finite", "straggler"
  std::string kind;
  std::string who;  ///< first failed, corrupt or slow member
  std::string why;  ///< with the names of the members that forwarded it
  /// Source of the state: "estate", "keeper", "local disk", "disk", "start"; or empty.
  std::string from;
  std::uint64_t resumed = 0;     ///< restart only: iteration of that state
  std::uint64_t generation = 0;  ///< the generation that follows
  double seconds = 0;            ///< from the failure report until work continued
  // Restart only: its duration in seconds. `release` and `respawn` start with the failure report
  // and run in parallel. `transfer` and `rebuild` follow one after the other.
  std::uint64_t news_ns = 0;  ///< time of the failure report, steady clock of that machine
  double release = 0;         ///< until the generation had ended in all surviving processes
  double respawn = 0;         ///< until the started processes were ready; 0: none were started
  double transfer = 0;        ///< until each rank had its state from a keeper; 0: it was local
  double rebuild = 0;         ///< until the next step began, including the search of local disks
  /// Wrong bits: "outvoted", "transient", "persistent" or "irreproducible"; not finite: also
  /// "reproducible". Straggler: "compute", "link", "input" or "over". Restart: "wrong bits" if a
  /// process was replaced because of them. Otherwise empty.
  std::string verdict = {};

  friend bool operator==(const run_event&, const run_event&) = default;
};

}  // namespace troupe::runtime
