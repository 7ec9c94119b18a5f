// Who waits for whom: from what lanes and actors say of themselves to the one that the others wait
// for. Nothing here knows a thread or a clock.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Of a lane or an actor, at one moment.
struct board_entry {
  std::uint64_t number = 0;  ///< of its place on the board
  std::string who;           ///< "lane:0.1", "stage:0.1", "replica:0", "supervisor", "loader"
  std::string work = {};     ///< "1F0", or the message that it handles; empty: it has none
  std::uint64_t step = 0;
  bool waits = false;                  ///< else it is at `work`
  std::uint64_t since_ns = 0;          ///< of the wait, else of the last sign of progress
  std::string what = {};               ///< that it waits for
  std::vector<std::string> whom = {};  ///< that it waits for, by name
  bool idle = false;         ///< a lane without work: told only where somebody waits for it
  std::uint64_t cpu_ns = 0;  ///< that its thread has used so far
  /// In times of suspicion: more for what may do one thing for long that gives no sign.
  double patience = 1;
  std::uint64_t generation = 0;  ///< it belongs to; 0: to none
  std::uint64_t actor = 0;       ///< as lane_board::member has it
};

/// One edge for each name in `whom` of who waits.
class wait_graph {
 public:
  explicit wait_graph(std::vector<board_entry> all);

  /// Those who wait for `who`, directly or for one who does.
  std::size_t waiters_of(const std::string& who) const;
  /// A line each, sorted: the root first, then who waits for it, then who waits for those, then the
  /// rest. Whoever has nothing to do and is waited for by nobody is left out.
  std::string text(const std::string& root, std::uint64_t now_ns) const;
  const std::vector<board_entry>& all() const { return all_; }

  /// A deadlock: those who wait for one another in a ring, each for the next and the last for the
  /// first, where none of them waits, through whomever, for one that may still do something: who is
  /// at work, who waits for nobody, or who is not on this board. Empty: there is none.
  std::vector<board_entry> ring() const;

 private:
  /// How many waits lie between each and the root.
  std::map<std::string, int> distances_to(const std::string& root) const;

  std::vector<board_entry> all_;  ///< by name
};

/// HANG-1. Decides, look after look, whether somebody hangs. Who waits does not: at the root of
/// what is late stands one who does not wait, shows no progress for longer than the suspicion, and
/// whose thread has used no processor meanwhile; one that computes on a slow machine is given four
/// times as long. Of several the one for whom most others wait, then the one that is late for
/// longest.
///
/// Where nobody is late so, but some have waited in a ring (wait_graph::ring) for twice the
/// suspicion, one of them is the root: a lane, a stage or a replica before the node and the
/// supervisor, and of those who has waited longest.
///
/// Where the looks themselves came late, the machine or the process has stood still: times count
/// anew, and nobody is suspected for them.
class hang_judge {
 public:
  explicit hang_judge(double suspicion);

  static constexpr int looks = 4;  ///< in the time of suspicion
  std::uint64_t period_ns() const { return suspicion_ns_ / looks; }

  struct verdict {
    board_entry root;
    double seconds = 0;  ///< without progress
    std::string text;    ///< the graph
    std::string ring
        = {};  ///< "a waits for b, which waits for a"; empty: the root waits for nobody
  };
  std::optional<verdict> look(std::vector<board_entry> all, std::uint64_t now_ns);

 private:
  std::optional<verdict> look_for_ring(const wait_graph& graph, std::uint64_t now_ns) const;

  std::uint64_t suspicion_ns_;
  std::uint64_t last_ns_ = 0;                        ///< when it looked last; 0: never
  std::uint64_t anew_ns_ = 0;                        ///< nothing that was before counts
  std::map<std::uint64_t, std::uint64_t> cpu_;       ///< at the last look, of each place
  std::map<std::uint64_t, std::uint64_t> computes_;  ///< when its thread last used a processor
};

}  // namespace troupe::runtime
