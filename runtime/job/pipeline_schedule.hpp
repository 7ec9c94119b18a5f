// The pipeline schedule of a job: the rank of each chunk of the model, and the plan of each step.

#pragma once

#include "runtime/core/setting.hpp"
#include "runtime/schedule/behaviour.hpp"
#include "runtime/schedule/credits.hpp"
#include "runtime/schedule/generators.hpp"
#include "runtime/schedule/plan.hpp"
#include "runtime/script/schedule_script.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct schedule_settings {
  /// `layout.schedule.source`: a name (generators.hpp), FILE.csv or FILE.lua.
  /// Empty: 1f1b, or interleaved where a rank has several chunks, as in Megatron-LM.
  std::string source;
  std::string text = {};    ///< content of the file, after with_text; empty: not yet read
  int chunks_per_rank = 0;  ///< 0: as the schedule defines
  int group = 0;            ///< 0: number of ranks
  double memory_limit = 0;  ///< activations of a whole share; 0: the schedule's own limit
  /// Credits of each hand-off between two stages, in either direction; 0: as many as the plan needs
  /// (credits.hpp).
  int credits = 0;
  action_costs costs = {};  ///< for a whole share, for schedules that use costs
  double transfer = 0;
  std::optional<behaviour_factory> own = {};  ///< a user's schedule in C++; `source` is then empty

  static constexpr auto fields() {
    using x = schedule_settings;
    return std::tuple(
        row("source", &x::source)
            .own_flag({.name = "--pipeline-schedule",
                       .type = "HOW",
                       .default_value = "1f1b, or interleaved with several virtual stages per rank",
                       .help
                       = "Name of a schedule (`troupe schedule plan` lists them), FILE.csv, or "
                         "FILE.lua. Checked before the run starts.",
                       .resume = at_resume::told}),
        row("text", &x::text),
        row("chunks_per_rank", &x::chunks_per_rank)
            .flag({.name = "--num-virtual-stages-per-pipeline-rank",
                   .type = "V",
                   .unit = "stages",
                   .default_value = "as the schedule needs",
                   .help = "Virtual stages per pipeline rank.",
                   .range = whole_range{1, 1 << 10},
                   .only_given = true,
                   .resume = at_resume::told}),
        row("group", &x::group)
            .flag({.name = "--microbatch-group-size-per-virtual-pipeline-stage",
                   .unit = "micro-batches",
                   .default_value = "--pipeline-model-parallel-size",
                   .help = "With interleaved schedules: number of micro-batches of a virtual stage "
                           "that run in sequence.",
                   .range = whole_range{1, 1 << 20},
                   .only_given = true}),
        row("memory_limit", &x::memory_limit)
            .own_flag({.name = "--pipeline-memory-limit",
                       .unit = "micro-batches",
                       .help
                       = "With zb-h2 and auto: limit of the activations that a rank holds at "
                         "once. A micro-batch counts with the rank's whole share of the model.",
                       .range = real_range{0.01, 1e6},
                       .only_given = true}),
        row("credits", &x::credits)
            .own_flag(
                {.name = "--pipeline-credits",
                 .unit = "micro-batches",
                 .default_value = "as the schedule needs, plus two in flight",
                 .help
                 = "Activations, and as many gradients, that a stage may send before the next "
                   "one takes them. Limits what a slow stage accumulates at its predecessor. "
                   "Checked before the run starts; a validation gets as many as it needs.",
                 .range = whole_range{1, 1 << 20},
                 .only_given = true}),
        row("costs", &x::costs),
        row("transfer", &x::transfer),
        row("own", &x::own));
  }
};

/// Reads the file of the source, if it is one, for processes that cannot read it. Throws
/// input_error if the file cannot be read.
schedule_settings with_text(schedule_settings settings);

/// A chunk that a rank hosts, and its copy of the model.
struct chunk_copy {
  chunk_id chunk = {};
  copy_id copy = {};

  friend bool operator==(const chunk_copy&, const chunk_copy&) = default;
};

/// Thread-safe after the call of `recompute`.
class pipeline_schedule {
 public:
  /// Makes or reads the plan for `microbatches` per physical replica, and checks it. Throws
  /// input_error: unknown schedule, missing file, error in a script, or a plan that cannot be
  /// executed.
  pipeline_schedule(schedule_settings settings, int ranks, int microbatches);

  const std::string& name() const { return name_; }
  int ranks() const { return ranks_; }
  int chunks() const { return frame_->chunks; }  ///< of the model
  int copies() const { return frame_->copies; }
  int rank_of(chunk_id chunk, copy_id copy = {}) const { return frame_->rank_of(chunk, copy); }
  /// Ascending by chunk.
  std::vector<chunk_copy> hosted_by(int rank) const;
  /// Null: the whole schedule is planned.
  const behaviour_factory* behaviours() const { return behaviours_ ? &*behaviours_ : nullptr; }
  /// True: gradient sums have the same bits as with any other such schedule.
  bool accumulates_in_order() const { return in_order_; }
  /// Notes for the user, shown before the run, about all plans made so far.
  std::vector<std::string> notes() const;
  /// The order in which each chunk adds its weight gradients, as text; empty if
  /// accumulates_in_order().
  std::string order_of_sums() const;

  /// Sets the blocks of later plans: for each chunk, whether each block is recomputed.
  void recompute(std::vector<std::vector<char>> blocks);

  /// Throws input_error as the constructor does. Caches the plan for each number.
  std::shared_ptr<const plan> training(int microbatches) const;
  /// The plan without blocks.
  std::shared_ptr<const plan> plain(int microbatches) const;
  /// Forward pass only, by the first copy.
  std::shared_ptr<const plan> validation(int microbatches) const;
  /// Limits on the results of each hand-off that may be leased at once in such a step (PLAN-6). A
  /// validation may exceed the given number if it would deadlock otherwise.
  std::shared_ptr<const handoff_credits> training_credits(int microbatches) const;
  std::shared_ptr<const handoff_credits> validation_credits(int microbatches) const;

 private:
  plan make(int microbatches) const;
  plan search(const schedule_request& request) const;
  std::shared_ptr<const plan> checked(int microbatches) const;
  std::shared_ptr<const plan> plain_of(int microbatches) const;
  std::shared_ptr<const plan> validation_of(int microbatches) const;
  cost_model costs_of_chunks(int chunks) const;
  /// Throws input_error if they are too few.
  std::shared_ptr<const handoff_credits> checked_credits(const plan& of) const;
  std::shared_ptr<const handoff_credits> credits_of_validation(const plan& of) const;

  schedule_settings settings_;
  std::string name_;
  int ranks_;
  std::optional<behaviour_factory> behaviours_;
  std::optional<plan> file_;
  std::optional<schedule_script> script_;
  std::vector<std::vector<char>> blocks_;
  bool in_order_ = true;
  std::shared_ptr<const plan> frame_;
  mutable std::mutex mutex_;
  mutable std::vector<std::string> notes_;
  mutable std::map<int, std::shared_ptr<const plan>> plain_, training_, validation_;
  mutable std::map<int, std::shared_ptr<const handoff_credits>> training_credits_,
      validation_credits_;
};

}  // namespace troupe::runtime
