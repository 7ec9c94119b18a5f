// Watches a run from outside: reads its ledger as it grows, with times, and lists its processes.

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

/// Nanoseconds of the steady clock, which all processes of this machine share.
std::uint64_t now_ns();

/// A restart in the ledger, and the steps after it.
struct seen_recovery {
  runtime::run_event event;
  std::uint64_t seen_ns = 0;   ///< time at which the event was read
  std::uint64_t replayed = 0;  ///< committed steps that ran again
  /// The first new step, and the time at which it was read; empty: none yet.
  std::optional<std::uint64_t> first_new, first_new_ns;
};

/// The death of a service actor: it was replaced or given up.
struct seen_successor {
  runtime::run_event event;
  std::uint64_t seen_ns = 0;
};

/// Follows a ledger as it grows. Not thread-safe.
class ledger_watch {
 public:
  explicit ledger_watch(std::filesystem::path file) : file_(std::move(file)) {}
  ledger_watch(const ledger_watch&) = delete;
  ledger_watch& operator=(const ledger_watch&) = delete;

  /// Reads new lines. Ignores lines that are not records: checks of the ledger find them.
  void look();

  std::uint64_t newest() const { return newest_; }    ///< newest committed iteration; 0: none
  std::uint64_t commits() const { return commits_; }  ///< number of commits
  std::optional<std::uint64_t> first_ns() const { return first_ns_; }
  std::uint64_t newest_ns() const { return newest_ns_; }  ///< time at which it was read
  const std::vector<seen_recovery>& recoveries() const { return recoveries_; }
  /// Moves of processes to a host that returned, without a death.
  const std::vector<seen_recovery>& moves() const { return moves_; }
  const std::vector<seen_successor>& successors() const { return successors_; }

 private:
  void take(std::string_view line);

  std::filesystem::path file_;
  std::uintmax_t at_ = 0, size_ = 0;  ///< end of the last complete line; size of the file
  std::uint64_t newest_ = 0, newest_ns_ = 0, commits_ = 0;
  std::optional<std::uint64_t> first_ns_;
  std::vector<seen_recovery> recoveries_, moves_;
  std::vector<seen_successor> successors_;
  std::vector<seen_recovery>* newest_of_ = &recoveries_;  ///< list with the newest event
};

/// Running processes by name: "node-1", "supervisor", "agent-HOST", and "front", which has no
/// entry. Standing nodes have "agent-host-1", with the node's number.
using standing_processes = std::map<std::string, runtime::process_id>;

/// The running processes of a run. `front`: process of the front, left out if it has ended.
/// `hosts`: folders of the standing nodes.
standing_processes standing(const runtime::run_folder& folder,
                            const runtime::process_id& front,
                            const std::vector<std::filesystem::path>& hosts);
/// Number of lines of these files with each of the phrases; missing files count as empty.
std::size_t times_said(const std::vector<std::filesystem::path>& files,
                       std::span<const std::string_view> words);

/// All processes with an entry, running or not: the last ones of a run that has ended.
standing_processes last_seen(const runtime::run_folder& folder);

}  // namespace troupe::command::chaos
