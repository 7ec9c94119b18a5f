// A run seen from outside while it goes on: what its ledger says, and when it was there.

#pragma once

#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::command::chaos {

/// Nanoseconds by the steady clock of this machine, which its processes have in common.
std::uint64_t now_ns();

/// A restart, as the ledger tells of it, and how the run went on.
struct seen_recovery {
  runtime::run_event event;
  std::uint64_t replayed = 0;  ///< committed steps that ran again
  /// The first that was committed anew, and when that was seen; nothing: none yet.
  std::optional<std::uint64_t> first_new, first_new_ns;
};

/// Follows a ledger as it grows. One thread.
class ledger_watch {
 public:
  explicit ledger_watch(std::filesystem::path file) : file_(std::move(file)) {}

  /// Takes what is there and was not taken; a line that is no record is left to those who check the
  /// ledger.
  void look();

  std::uint64_t newest() const { return newest_; }    ///< committed iteration; 0: none
  std::uint64_t commits() const { return commits_; }  ///< how many
  std::optional<std::uint64_t> first_ns() const { return first_ns_; }
  std::uint64_t newest_ns() const { return newest_ns_; }  ///< when it was seen
  const std::vector<seen_recovery>& recoveries() const { return recoveries_; }
  std::size_t services() const { return services_; }  ///< how many were replaced

 private:
  void take(std::string_view line);

  std::filesystem::path file_;
  std::uintmax_t at_ = 0;
  std::string begun_;
  std::uint64_t newest_ = 0, newest_ns_ = 0, commits_ = 0;
  std::optional<std::uint64_t> first_ns_;
  std::vector<seen_recovery> recoveries_;
  std::size_t services_ = 0;
};

/// The processes of a run that stand, by name: "node-1", "supervisor", "agent-HOST", and "front"
/// and "guard", which have no entries.
using standing_processes = std::map<std::string, runtime::process_id>;

/// `front`: of the command; it is left out when it has ended.
standing_processes standing(const runtime::run_folder& folder, const runtime::process_id& front);
/// Those that have an entry, whether they run or not: of a run that has ended, who was there last.
standing_processes last_seen(const runtime::run_folder& folder);

}  // namespace troupe::command::chaos
