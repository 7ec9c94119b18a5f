// One fault, carried out on one process from outside.

#pragma once

#include "actors/command/chaos/plan.hpp"
#include "actors/command/chaos/started_run.hpp"

#include <optional>
#include <string>

namespace troupe::command::chaos {

/// Which process the fault strikes, by its name; nothing: none of that role stands.
std::optional<std::string> victim_of(const disturbance& what, const standing_processes& all);

/// Strikes, and returns when the fault is over, having looked at the run meanwhile. `began_ns` is
/// when it began. Returns why it could not be; empty: it was.
std::string carry_out(const disturbance& what,
                      const runtime::process_id& whom,
                      const chaos_job& job,
                      started_run& run,
                      const reference_run& undisturbed,
                      std::uint64_t& began_ns);

}  // namespace troupe::command::chaos
