// How a seed chooses who runs next, and how long messages take. Each seed draws a mix of its own,
// of which many leave most kinds out: some holes are found by little disturbance of one kind.
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
    uniform,     ///< any of those that can run
    priorities,  ///< the one with the highest priority, which changes a few times
    starving,    ///< as uniform, but some run when nobody else can
    in_turn,     ///< the one that has waited longest: calm
  };
  order by = order::in_turn;
  std::uint64_t salt = 0;                         ///< of priorities, and of who starves
  std::vector<std::uint64_t> change_points = {};  ///< turns after which the highest falls
  double goes_on = 0;                             ///< that who has just run, runs again if it can
  double early_timer = 0;             ///< that a timer fires although somebody could run
  std::uint64_t early_within_ns = 0;  ///< of its time
  double delayed = 0;                 ///< messages
  std::uint64_t longest_delay_ns = 0;
  double late_news = 0;  ///< of a death, within its process; between processes it always is
  double slow_lane = 0;  ///< pieces of work that take long
  std::uint64_t longest_work_ns = 0;
  std::uint64_t host_latency_ns = 0, network_latency_ns = 0;  ///< between processes, and hosts
};

/// Undisturbed: whatever can run first runs first, and nothing takes time.
inline mix calm() {
  return {};
}
mix draw_mix(choices& from);
std::string to_string(const mix& x);

}  // namespace troupe::actors::simulation
