// Schedules by name. Each works for any number of ranks and micro-batches that its rule allows;
// other requests are refused with the nearest valid value.

#pragma once

#include "runtime/schedule/plan.hpp"
#include "runtime/schedule/simulate.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace troupe::runtime {

struct schedule_request {
  int ranks = 1;
  int chunks_per_rank = 0;  ///< v; 0: the schedule's default
  int microbatches = 1;     ///< per replica
  /// For interleaved and izb: consecutive micro-batches of a chunk before the rank changes to the
  /// next chunk; 0: the number of ranks.
  int group = 0;
  /// Memory limit per rank, in activations of one micro-batch through its whole share; 0: the
  /// schedule's own limit.
  double memory_limit = 0;
  action_costs costs = {};  ///< of a rank's whole share; used by some schedules
  double transfer = 0;
  /// Costs of each chunk of the model, if they differ: for auto, which then keeps this number of
  /// chunks.
  std::vector<action_costs> each = {};
};

struct named_schedule {
  std::string_view name;
  std::string_view what;   ///< one line for the help
  std::string_view paper;  ///< author, title, year, or the source of the rule
  int chunks_per_rank;     ///< default; 0: chosen by the schedule
  bool other_chunks;       ///< other numbers of chunks per rank are allowed
  bool in_v;               ///< chunks run down the ranks and up again
  int copies;
};

/// The names: gpipe 1f1b interleaved looped-bfs zb-h1 izb zb-h2 zb-v v-half v-min dualpipe
/// dualpipev auto
std::span<const named_schedule> named_schedules();
/// Null: unknown name.
const named_schedule* find_schedule(std::string_view name);

/// Throws input_error for an unknown schedule, or a request that it does not allow.
plan generate(std::string_view name, const schedule_request& request);

}  // namespace troupe::runtime
