// A run seen from outside while it goes on: what its ledger says, and when it was there.

#pragma once

#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::command::chaos {

/// Nanoseconds by the steady clock of this machine, which its processes have in common.
std::uint64_t now_ns();

/// A restart, as the ledger tells of it, and how the run went on.
struct seen_recovery {
  runtime::run_event event;
  std::uint64_t seen_ns = 0;   ///< when it was seen that work went on
  std::uint64_t replayed = 0;  ///< committed steps that ran again
  /// The first that was committed anew, and when that was seen; nothing: none yet.
  std::optional<std::uint64_t> first_new, first_new_ns;
};

/// Somebody who serves the ranks has died: another one has its place, or nobody any more.
struct seen_successor {
  runtime::run_event event;
  std::uint64_t seen_ns = 0;
};

/// Follows a ledger as it grows. One thread.
class ledger_watch {
 public:
  explicit ledger_watch(std::filesystem::path file) : file_(std::move(file)) {}
  ledger_watch(const ledger_watch&) = delete;
  ledger_watch& operator=(const ledger_watch&) = delete;

  /// Takes what is there and was not taken; a line that is no record is left to those who check the
  /// ledger.
  void look();

  std::uint64_t newest() const { return newest_; }    ///< committed iteration; 0: none
  std::uint64_t commits() const { return commits_; }  ///< how many
  std::optional<std::uint64_t> first_ns() const { return first_ns_; }
  std::uint64_t newest_ns() const { return newest_ns_; }  ///< when it was seen
  const std::vector<seen_recovery>& recoveries() const { return recoveries_; }
  /// Places that went to another host which is there again: nobody died of it.
  const std::vector<seen_recovery>& moves() const { return moves_; }
  const std::vector<seen_successor>& successors() const { return successors_; }

 private:
  void take(std::string_view line);

  std::filesystem::path file_;
  std::uintmax_t at_ = 0, size_ = 0;  ///< behind the last whole line; when it was looked at
  std::uint64_t newest_ = 0, newest_ns_ = 0, commits_ = 0;
  std::optional<std::uint64_t> first_ns_;
  std::vector<seen_recovery> recoveries_, moves_;
  std::vector<seen_successor> successors_;
  std::vector<seen_recovery>* newest_of_ = &recoveries_;  ///< whose last one steps belong to
};

/// The processes of a run that stand, by name: "node-1", "supervisor", "agent-HOST", and "front"
/// and "guard", which have no entries; "agent-host-1" and "guard-host-1" of a standing node, by its
/// number.
using standing_processes = std::map<std::string, runtime::process_id>;

/// `front`: of the command; it is left out when it has ended. `hosts`: folders of the standing
/// nodes.
standing_processes standing(const runtime::run_folder& folder,
                            const runtime::process_id& front,
                            const std::vector<std::filesystem::path>& hosts);
/// How often these files have any of those words; files that are not there have none.
std::size_t times_said(const std::vector<std::filesystem::path>& files,
                       std::span<const std::string_view> words);

/// Those that have an entry, whether they run or not: of a run that has ended, who was there last.
standing_processes last_seen(const runtime::run_folder& folder);

}  // namespace troupe::command::chaos
