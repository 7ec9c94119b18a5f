// What the commands of `troupe schedule` share: which plan is meant, and what its actions cost.

#pragma once

#include "actors/command/command_line.hpp"
#include "runtime/schedule/check.hpp"
#include "runtime/schedule/generators.hpp"
#include "runtime/schedule/plan.hpp"
#include "runtime/schedule/simulate.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::command {

struct schedule_flags {
  std::vector<std::string> names;  ///< schedules and files
  std::optional<int> ranks, microbatches, chunks_per_rank, group;
  std::optional<double> memory_limit;
  runtime::action_costs times;  ///< of a rank's whole share
  runtime::held_memory held;    ///< likewise
  double transfer = 0, overhead = 0;
  int queues = 0;
  std::string layout;
  bool lowered = false;
};

struct chosen_plan {
  runtime::plan what;
  std::string from;                   ///< of "auto": what it found; else empty
  std::optional<double> lower_bound;  ///< of "auto": of the makespan
};

/// --ranks, --microbatches and what else decides a plan of a named schedule.
void declare_plan(command_line& line, schedule_flags& to);
/// What actions cost and hold.
void declare_costs(command_line& line, schedule_flags& to);

/// A schedule's name, FILE.lua, or a file of CSV. Not yet checked. Throws
/// usage_error and input_error.
chosen_plan plan_of(const std::string& argument, const schedule_flags& flags);
/// The same, checked, --memory-limit with it, and lowered where that is wanted; throws input_error
/// with all complaints.
chosen_plan sound_plan_of(const std::string& argument, const schedule_flags& flags);

/// Of each chunk, by --times, --held and --layout.
runtime::cost_model costs_of(const runtime::plan& x, const schedule_flags& flags);

/// --memory-limit, whose unit is the same for every plan and whatever --held says: one micro-batch
/// through a rank's whole share, from F to B or W.
runtime::check_settings settings_of(const runtime::plan& x, const schedule_flags& flags);

/// "4 ranks, 8 stages, 16 micro-batches"
std::string size_of(const runtime::plan& x);

/// The only name or file that was given; throws usage_error with an example of `line`.
const std::string& only_name(const schedule_flags& flags, const command_line& line);

void add_schedule_simulate(command_line& group);  // schedule_simulate.cpp
void add_schedule_draw(command_line& group);      // schedule_draw.cpp

}  // namespace troupe::command
