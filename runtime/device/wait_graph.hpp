// The wait graph of lanes and actors: finds the member that blocks the others. Pure data: it uses
// no threads and no clock.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// State of a lane or an actor at one moment.
struct board_entry {
  std::uint64_t number = 0;  ///< of its place on the board
  std::string who;           ///< "lane:0.1", "stage:0.1", "replica:0", "supervisor", "loader"
  std::string work = {};     ///< "1F0", or the message that it handles; empty: none
  std::uint64_t step = 0;
  bool waits = false;                  ///< else it runs `work`
  std::uint64_t since_ns = 0;          ///< start of the wait, or last sign of progress
  std::string what = {};               ///< what it waits for
  std::vector<std::string> whom = {};  ///< names of the members that it waits for
  bool on_process = false;             ///< `whom` is a process of the run, not a member
  bool idle = false;         ///< a lane without work: printed only if another member waits for it
  std::uint64_t cpu_ns = 0;  ///< CPU time used by its thread
  /// Multiple of the timeout; above 1 for long work that reports no progress.
  double patience = 1;
  std::uint64_t generation = 0;  ///< 0: none
  std::uint64_t actor = 0;       ///< see lane_board::member
};

/// Edges go from each waiting entry to each member in its `whom`.
class wait_graph {
 public:
  explicit wait_graph(std::vector<board_entry> all);

  /// Number of members that wait for `who`, directly or through others.
  std::size_t waiters_of(const std::string& who) const;
  /// One line per member, sorted by distance: the root, its direct waiters, their waiters, then the
  /// rest. Leaves out idle members that no other member waits for.
  std::string text(const std::string& root, std::uint64_t now_ns) const;
  const std::vector<board_entry>& all() const { return all_; }

  /// A deadlock: a cycle of waits from which no member can reach one that can still run. A member
  /// can run if it works, waits for no named member, or is not on this board. Empty if there is
  /// none.
  std::vector<board_entry> ring() const;

 private:
  /// Number of edges from each member to the root.
  std::map<std::string, int> distances_to(const std::string& root) const;

  std::vector<board_entry> all_;  ///< sorted by name
};

/// HANG-1. Decides, by repeated looks, whether a member hangs: a member that does not wait, shows
/// no progress for longer than the timeout (`suspicion`), and uses no CPU time meanwhile. A member
/// that uses CPU time gets four times as long, for slow machines. Among several it picks the one
/// with the most waiters, then the one without progress for longest.
///
/// If there is none, but a cycle (wait_graph::ring) has waited for twice the timeout, one member of
/// the cycle is the root. Lanes, stages and replicas come before node and supervisor; among these,
/// the longest wait comes first.
///
/// If the looks themselves come late, the machine or the process was suspended: all times are
/// reset.
class hang_judge {
 public:
  explicit hang_judge(double suspicion);

  static constexpr int looks = 4;  ///< per timeout
  std::uint64_t period_ns() const { return suspicion_ns_ / looks; }

  struct verdict {
    board_entry root;
    double seconds = 0;     ///< time without progress
    std::string text;       ///< the printed graph
    std::string ring = {};  ///< "a waits for b, which waits for a"; empty: no deadlock
  };
  std::optional<verdict> look(std::vector<board_entry> all, std::uint64_t now_ns);

 private:
  std::optional<verdict> look_for_ring(const wait_graph& graph, std::uint64_t now_ns) const;

  std::uint64_t suspicion_ns_;
  std::uint64_t last_ns_ = 0;                   ///< time of the last look; 0: none yet
  std::uint64_t anew_ns_ = 0;                   ///< earlier times do not count
  std::map<std::uint64_t, std::uint64_t> cpu_;  ///< CPU time at the last look, by place
  std::map<std::uint64_t, std::uint64_t>
      computes_;  ///< last time the thread used CPU time, by place
};

}  // namespace troupe::runtime
