// Carries out one fault on one process from outside.

#pragma once

#include "actors/command/chaos/plan.hpp"
#include "actors/command/chaos/started_run.hpp"

#include <optional>
#include <string>

namespace troupe::command::chaos {

/// Name of the process that the fault strikes; empty: no process of that role runs.
std::optional<std::string> victim_of(const disturbance& what, const standing_processes& all);

/// Carries out the fault on process `whom`, and watches the run until the fault is over. Sets
/// `began_ns` to the time of the strike. Returns the reason of a failure, or an empty string.
std::string carry_out(const disturbance& what,
                      const runtime::process_id& whom,
                      const chaos_job& job,
                      started_run& run,
                      const reference_run& undisturbed,
                      std::uint64_t& began_ns);

}  // namespace troupe::command::chaos
