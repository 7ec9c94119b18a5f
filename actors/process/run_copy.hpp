// A standing node's copy of the run that it serves: a run folder on this host. If the supervisor's
// host is lost with the run's folder, another process continues the run from it
// (docs/protocol/succession.md).
//
//   COPIES/RUN-ID.N/  N: number of earlier copies of this run
//                     run.json, order, description.json, rendezvous.json, ledger.jsonl,
//                     credentials/, and logs/ once a process continues here

#pragma once

#include "messages/control/standing.hpp"
#include "runtime/process/run_folder.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace troupe::actors {

/// One thread.
class run_copy {
 public:
  /// Creates a folder below `copies`, with the credentials of the standing node's folder. Throws
  /// input_error and io_error.
  run_copy(const std::filesystem::path& copies,
           const std::filesystem::path& node,
           const messages::keep_run& x);

  const runtime::run_folder& folder() const { return folder_; }
  const messages::keep_run& told() const { return told_; }
  /// Writes what has changed. Throws io_error.
  void keep(const messages::keep_run& x);
  /// Writes a piece of the ledger; returns the bytes that the copy has without a gap. Throws
  /// io_error; the copy then has the same bytes as before, or fewer.
  std::uint64_t keep(const messages::keep_ledger& x);
  std::uint64_t ledger_bytes() const { return ledger_bytes_; }
  /// Whether the copy has reached the state of the run at the copy's start. Before that, a
  /// successor would continue from an older checkpoint than the newest.
  bool is_complete() const { return ledger_bytes_ >= begun_with_; }
  /// Removes the folder unless a process leads or has led the run there. Returns false while a
  /// process still uses it.
  bool remove_unless_used() const;

 private:
  runtime::run_folder folder_;
  messages::keep_run told_;
  std::uint64_t ledger_bytes_ = 0;
  std::uint64_t begun_with_ = 0;
};

/// Why this host could not continue the run from its copy; empty: it could. Also prepares the
/// arbiter's entry. Blocks on file systems.
std::string why_not_here(const messages::keep_run& x, const std::filesystem::path& copy);
/// Called when a process was started there and will not lead: resigns, so that others may. Blocks,
/// too.
void resign_here(const messages::keep_run& x, const std::filesystem::path& copy);

}  // namespace troupe::actors
