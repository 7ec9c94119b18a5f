// What a standing node has of the run that it serves, for the case that the host of the supervisor
// is lost with the run's folder: a folder like that one, on this host, from which another process
// goes on (docs/protocol/succession.md).
//
//   NODE/runs/RUN-ID.N/  N: of the supervisor's process that it is of
//                        run.json, order, description.json, rendezvous.json, ledger.jsonl,
//                        credentials/, and logs/ once a process goes on here

#pragma once

#include "messages/control/standing.hpp"
#include "runtime/process/run_folder.hpp"

#include <filesystem>
#include <string>

namespace troupe::actors {

class run_copy {
 public:
  /// `node`: the standing node's folder, whose credentials are taken. What is there of the same
  /// incarnation is replaced. Throws input_error and io_error.
  run_copy(const std::filesystem::path& node, const messages::keep_run& x);

  const runtime::run_folder& folder() const { return folder_; }
  const messages::keep_run& told() const { return told_; }
  /// What has changed. Throws as the constructor.
  void keep(const messages::keep_run& x);
  void keep(const messages::keep_ledger& x) const;
  /// Why this host could not go on with the run; empty: it could.
  std::string why_not() const;
  /// Nobody needs it: no process has gone on here.
  void remove() const;

 private:
  runtime::run_folder folder_;
  messages::keep_run told_;
};

}  // namespace troupe::actors
