// What a standing node has of the run that it serves, for the case that the host of the supervisor
// is lost with the run's folder: a folder like that one, on this host, from which another process
// goes on (docs/protocol/succession.md).
//
//   COPIES/RUN-ID.N/  N: so many there were before of this run
//                     run.json, order, description.json, rendezvous.json, ledger.jsonl,
//                     credentials/, and logs/ once a process goes on here

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
  /// In a new folder below `copies`, with the credentials of the standing node's folder. Throws
  /// input_error and io_error.
  run_copy(const std::filesystem::path& copies,
           const std::filesystem::path& node,
           const messages::keep_run& x);

  const runtime::run_folder& folder() const { return folder_; }
  const messages::keep_run& told() const { return told_; }
  /// What has changed. Throws io_error.
  void keep(const messages::keep_run& x);
  /// What the copy has of the ledger now, without a hole: bytes. Throws io_error, and then it has
  /// what it had, or less.
  std::uint64_t keep(const messages::keep_ledger& x);
  std::uint64_t ledger_bytes() const { return ledger_bytes_; }
  /// Whether it has come to where the run was when the copy was begun: else it would go on from an
  /// older checkpoint than the newest.
  bool is_complete() const { return ledger_bytes_ >= begun_with_; }
  /// Unless a process leads the run there, or has led it. False: one looks at it yet.
  bool remove_unless_used() const;

 private:
  runtime::run_folder folder_;
  messages::keep_run told_;
  std::uint64_t ledger_bytes_ = 0;
  std::uint64_t begun_with_ = 0;
};

/// Why this host could not go on with that run from its copy; empty: it could, and what it needs of
/// the arbiter is made. Blocks for file systems.
std::string why_not_here(const messages::keep_run& x, const std::filesystem::path& copy);
/// By who has started a process there that does not lead, and will not: others may. The same.
void resign_here(const messages::keep_run& x, const std::filesystem::path& copy);

}  // namespace troupe::actors
