// Schedules by name. Each is general in ranks and micro-batches; what one does not admit is refused
// with the nearest that it does.

#pragma once

#include "runtime/schedule/plan.hpp"
#include "runtime/schedule/simulate.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace troupe::runtime {

struct schedule_request {
  int ranks = 1;
  int chunks_per_rank = 0;  ///< v; 0: what the schedule is made for
  int microbatches = 1;     ///< of each replica
  /// Consecutive micro-batches of a chunk before the rank turns to the next: interleaved and izb;
  /// 0: as many as ranks.
  int group = 0;
  /// Of each rank, in activations of one micro-batch through its whole share; 0: the schedule's
  /// own.
  double memory_limit = 0;
  action_costs costs = {};  ///< of a rank's whole share: for schedules that look at them
  double transfer = 0;
  /// Of each chunk of the model, where they differ: for auto, which keeps to that many chunks.
  std::vector<action_costs> each = {};
};

struct named_schedule {
  std::string_view name;
  std::string_view what;   ///< a line for the help
  std::string_view paper;  ///< author, title, year, or whose rule it is
  int chunks_per_rank;     ///< by default; 0: it chooses
  bool other_chunks;       ///< it admits another number of them
  bool in_v;               ///< chunks run down the ranks and up again
  int copies;
};

/// gpipe 1f1b interleaved looped-bfs zb-h1 izb zb-h2 zb-v v-half v-min dualpipe dualpipev auto
std::span<const named_schedule> named_schedules();
/// Null: there is none.
const named_schedule* find_schedule(std::string_view name);

/// Throws input_error: there is no such schedule, or it does not admit the request.
plan generate(std::string_view name, const schedule_request& request);

}  // namespace troupe::runtime
