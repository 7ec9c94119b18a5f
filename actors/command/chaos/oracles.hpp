// Checks of a disturbed run. Each oracle returns sentences about violations, none if its invariant
// holds.
//
//   CHAOS-1  The state after each step and the newest checkpoint are equal to the undisturbed
//   run's,
//            to the bit.
//   CHAOS-2  The ledger is in order: steps are committed once and ascending, each sample once, and
//            a step that ran again has the same state.
//   CHAOS-3  The log has each step once, ascending, for any number of supervisors.
//   CHAOS-4  A process that was not struck survives: it has the same pid and start time.
//   CHAOS-5  Nothing is left behind: no process, port, file, semaphore or shared memory.

#pragma once

#include "actors/command/chaos/faults.hpp"
#include "actors/command/chaos/watch.hpp"
#include "runtime/process/footprint.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::command::chaos {

using sentences = std::vector<std::string>;

/// A step of the JSON log.
struct logged_step {
  std::uint64_t iteration = 0;
  std::string digest;
  double elapsed_ms = 0;
};

/// All steps of a log, in its order. Throws input_error if it cannot be read or has no steps.
std::vector<logged_step> read_log(const std::filesystem::path& file);

/// CHAOS-1
sentences digests_differ(const std::vector<logged_step>& here,
                         const std::vector<logged_step>& undisturbed);
sentences checkpoints_differ(const std::filesystem::path& save,
                             const std::filesystem::path& undisturbed);
/// CHAOS-2. `last`: the last iteration of the run.
sentences ledger_is_wrong(const std::filesystem::path& ledger, std::uint64_t last);
/// CHAOS-3
sentences log_is_wrong(const std::vector<logged_step>& log,
                       std::uint64_t first,
                       std::uint64_t last);

/// Processes replaced or lost between snapshots; new names are ignored.
std::vector<std::string> replaced_between(const standing_processes& before,
                                          const standing_processes& after);
/// CHAOS-4. `victim`: the process that was struck; empty for an actor.
sentences survivors_lost(const std::vector<std::string>& replaced_ones,
                         replaced allowed,
                         const std::string& victim);
/// Checks that the process of `victim`, which the fault ends, was replaced (is_replaced_after).
sentences victim_kept(const std::vector<std::string>& replaced_ones,
                      replaced allowed,
                      const std::string& victim);

/// CHAOS-5. Waits up to `patience_seconds` until nothing is left. `hosts`: folders of standing
/// nodes.
sentences leftovers(const runtime::footprint& of,
                    const std::string& run_id,
                    const std::filesystem::path& run,
                    const std::filesystem::path& save,
                    const std::filesystem::path& temporary,
                    const std::vector<std::filesystem::path>& hosts,
                    double patience_seconds);

}  // namespace troupe::command::chaos
