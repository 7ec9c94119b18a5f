// The clock of a lane: steady, or virtual in a simulation.

#pragma once

#include <cstdint>

namespace troupe::runtime {

/// Nanoseconds on the clock of the current fiber, or else on the steady clock.
std::uint64_t lane_clock_ns();

/// Adds the nanoseconds of its life to a sum.
class lane_timer {
 public:
  explicit lane_timer(std::uint64_t& to) : to_(to), began_(lane_clock_ns()) {}
  ~lane_timer() { to_ += lane_clock_ns() - began_; }
  lane_timer(const lane_timer&) = delete;
  lane_timer& operator=(const lane_timer&) = delete;

 private:
  std::uint64_t& to_;
  std::uint64_t began_;
};

}  // namespace troupe::runtime
