// How a job's pipeline is played: where each chunk of the model stands, and the plan of each step.

#pragma once

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
  std::string text = {};    ///< of the file, once it was read (with_text); empty: it will be
  int chunks_per_rank = 0;  ///< 0: what the schedule has
  int group = 0;            ///< 0: ranks
  double memory_limit = 0;  ///< activations of a whole share; 0: its own
  /// Of each hand-off between two stages, in either direction; 0: as its plan needs (credits.hpp).
  int credits = 0;
  action_costs costs = {};  ///< of a whole share, for schedules that look at them
  double transfer = 0;
  std::optional<behaviour_factory> own = {};  ///< the user's, in C++; then `source` is empty
};

/// The same with the text of its file, if its source is one: for who cannot read that file. Throws
/// input_error where nobody can.
schedule_settings with_text(schedule_settings settings);

/// A chunk that a rank hosts, and the copy of the model that it is of.
struct chunk_copy {
  chunk_id chunk = {};
  copy_id copy = {};

  friend bool operator==(const chunk_copy&, const chunk_copy&) = default;
};

/// Any thread, once `recompute` was told.
class pipeline_schedule {
 public:
  /// Makes, or reads, and checks the plan for `microbatches` of each physical replica. Throws
  /// input_error: no such schedule or file, a script's error, a plan that cannot be carried out.
  pipeline_schedule(schedule_settings settings, int ranks, int microbatches);

  const std::string& name() const { return name_; }
  int ranks() const { return ranks_; }
  int chunks() const { return frame_->chunks; }  ///< of the model
  int copies() const { return frame_->copies; }
  int rank_of(chunk_id chunk, copy_id copy = {}) const { return frame_->rank_of(chunk, copy); }
  /// Ascending by chunk.
  std::vector<chunk_copy> hosted_by(int rank) const;
  /// Null: everything is planned.
  const behaviour_factory* behaviours() const { return behaviours_ ? &*behaviours_ : nullptr; }
  /// The sums of gradients have the bits of every such schedule.
  bool accumulates_in_order() const { return in_order_; }
  /// What a user should know before the run, of all plans made so far; empty: nothing.
  std::vector<std::string> notes() const;
  /// In which order each chunk's weight gradients are added, as text; empty: as by every such
  /// schedule.
  std::string order_of_sums() const;

  /// From now on plans have these blocks: of each chunk whether each is rebuilt.
  void recompute(std::vector<std::vector<char>> blocks);

  /// Throws input_error as the constructor does. Made once for each number.
  std::shared_ptr<const plan> training(int microbatches) const;
  /// The same without blocks.
  std::shared_ptr<const plan> plain(int microbatches) const;
  /// Forward only, by the first copy.
  std::shared_ptr<const plan> validation(int microbatches) const;
  /// So many results of each hand-off may be leased at once, in such a step (PLAN-6). A validation
  /// has more than were told where it would come to no end.
  std::shared_ptr<const handoff_credits> training_credits(int microbatches) const;
  std::shared_ptr<const handoff_credits> validation_credits(int microbatches) const;

 private:
  plan make(int microbatches) const;
  plan search(const schedule_request& request) const;
  std::shared_ptr<const plan> checked(int microbatches) const;
  std::shared_ptr<const plan> plain_of(int microbatches) const;
  std::shared_ptr<const plan> validation_of(int microbatches) const;
  cost_model costs_of_chunks(int chunks) const;
  /// Throws input_error where they are too few.
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
