// What must hold of a run that was disturbed: each oracle says what is wrong, in words, and nothing
// where it holds.
//
//   CHAOS-1  The state after each step is that of the undisturbed run, to the bit, and so is the
//            newest checkpoint.
//   CHAOS-2  The ledger is in order: steps committed once and ascending, each sample once, no
//            step that ran again came out otherwise.
//   CHAOS-3  The log has each step once, ascending, whoever wrote it.
//   CHAOS-4  Who was not struck has its process: the same pid and start time.
//   CHAOS-5  Nothing is left: no process, port, file, semaphore or shared memory.

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

/// A step, as the JSON log has it.
struct logged_step {
  std::uint64_t iteration = 0;
  std::string digest;
  double elapsed_ms = 0;
};

/// All steps of a log, in its order. Throws input_error: it is not to be read, or has none.
std::vector<logged_step> read_log(const std::filesystem::path& file);

/// CHAOS-1
sentences digests_differ(const std::vector<logged_step>& here,
                         const std::vector<logged_step>& undisturbed);
sentences checkpoints_differ(const std::filesystem::path& save,
                             const std::filesystem::path& undisturbed);
/// CHAOS-2. `last`: the iteration with which the run ends.
sentences ledger_is_wrong(const std::filesystem::path& ledger, std::uint64_t last);
/// CHAOS-3
sentences log_is_wrong(const std::vector<logged_step>& log,
                       std::uint64_t first,
                       std::uint64_t last);

/// Who is another process now, or is gone; a new name is nobody's successor.
std::vector<std::string> replaced_between(const standing_processes& before,
                                          const standing_processes& after);
/// CHAOS-4. `victim`: the name of the process that was struck; empty: an actor was.
sentences survivors_lost(const std::vector<std::string>& replaced_ones,
                         replaced allowed,
                         const std::string& victim);
/// Of a fault that ends the process of `victim`, or the one that this actor is in: another one must
/// have its place (is_replaced_after).
sentences victim_kept(const std::vector<std::string>& replaced_ones,
                      replaced allowed,
                      const std::string& victim);

/// CHAOS-5. `hosts`: folders of standing nodes. Waits at most `patience_seconds` until nothing is
/// left.
sentences leftovers(const runtime::footprint& of,
                    const std::string& run_id,
                    const std::filesystem::path& run,
                    const std::filesystem::path& save,
                    const std::filesystem::path& temporary,
                    const std::vector<std::filesystem::path>& hosts,
                    double patience_seconds);

}  // namespace troupe::command::chaos
