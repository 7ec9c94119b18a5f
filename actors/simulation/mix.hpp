// Scheduling policy of a seed: which actor or lane runs next, and how long messages take. Each seed
// draws its own policy, and most leave out most kinds of faults: some bugs show only under few
// faults of one kind.
//
// Groce, Zhang, Eide, Chen, Regehr: "Swarm testing", 2012. Burckhardt, Kothari, Musuvathi,
// Nagarakatte: "A randomized scheduler with probabilistic guarantees of finding bugs" (PCT), 2010.

#pragma once

#include "actors/simulation/choices.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::actors::simulation {

struct mix {
  enum class order {
    uniform,     ///< any runnable one
    priorities,  ///< the one with the highest priority; priorities change a few times
    starving,    ///< as uniform, but some run only when no other can
    in_turn,     ///< the one that has waited longest: calm
  };
  order by = order::in_turn;
  /// Seeds the priorities and the choice of starving ones.
  std::uint64_t salt = 0;
  /// Turns after which the highest priority drops to the lowest.
  std::vector<std::uint64_t> change_points = {};
  /// Probability that the last one runs again, if it can.
  double goes_on = 0;
  /// Probability that a timer fires although something is runnable.
  double early_timer = 0;
  std::uint64_t early_within_ns = 0;  ///< how early it may fire
  double delayed = 0;                 ///< probability that a message is delayed
  std::uint64_t longest_delay_ns = 0;
  /// Probability that news of a death is late within its process; between processes it always is.
  double late_news = 0;
  double slow_lane = 0;  ///< probability that a task of a lane is slow
  std::uint64_t longest_work_ns = 0;
  /// Between processes of one host, and between hosts.
  std::uint64_t host_latency_ns = 0, network_latency_ns = 0;
  /// A cluster whose size is measured (cluster.hpp): latencies and starts are the longest, each
  /// host reports its deaths, and processes have the data plane of the context that they are told.
  bool steady = false;
};

/// Undisturbed: the first runnable one runs first, and nothing takes time.
inline mix calm() {
  return {};
}
mix draw_mix(choices& from);
std::string to_string(const mix& x);

}  // namespace troupe::actors::simulation
