// Flags that the commands of `troupe schedule` share: the plan, and the costs of its actions.

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
  std::string from;                   ///< the schedule that "auto" found; otherwise empty
  std::optional<double> lower_bound;  ///< of the makespan; only for "auto"
};

/// Declares --ranks, --microbatches and the other flags that determine a plan.
void declare_plan(command_line& line, schedule_flags& to);
/// Declares the costs and the memory of actions.
void declare_costs(command_line& line, schedule_flags& to);

/// The plan of a schedule's name, FILE.lua or a CSV file. Not checked. Throws usage_error and
/// input_error.
chosen_plan plan_of(const std::string& argument, const schedule_flags& flags);
/// Like plan_of, then checked, also against --memory-limit, and lowered with --lowered. Throws
/// input_error with all complaints.
chosen_plan sound_plan_of(const std::string& argument, const schedule_flags& flags);

/// The costs of each chunk by --times, --held and --layout.
runtime::cost_model costs_of(const runtime::plan& x, const schedule_flags& flags);

/// Settings for --memory-limit. Its unit does not depend on the plan or --held: the activations of
/// one micro-batch through a rank's whole share, from F to B or W.
runtime::check_settings settings_of(const runtime::plan& x, const schedule_flags& flags);

/// "4 ranks, 8 stages, 16 micro-batches"
std::string size_of(const runtime::plan& x);

/// The name or file, if exactly one was given. Otherwise throws usage_error with an example.
const std::string& only_name(const schedule_flags& flags, const command_line& line);

void add_schedule_simulate(command_line& group);  // schedule_simulate.cpp
void add_schedule_draw(command_line& group);      // schedule_draw.cpp

}  // namespace troupe::command
