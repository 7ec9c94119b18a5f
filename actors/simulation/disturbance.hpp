// Faults of a simulated run: deaths, network partitions, broken connections, slow and failing
// disks, and messages of other generations.

#pragma once

#include "actors/simulation/choices.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::actors::simulation {

/// The moment just before the n-th message of this type is handled, by any actor.
struct moment_of_step {
  std::string message;  ///< "decision"
  std::uint64_t count = 1;
};

struct disturbance {
  enum class kind {
    kill_actor,    ///< the actor ends by its own error
    kill_process,  ///< the process ends with all its actors
    kill_lane,     ///< the n-th task of a lane fails
    drain,         ///< requests an early end
    part,          ///< delays all messages from one process to another
    break_link,    ///< breaks data connections between two living processes
    slow_disk,     ///< delays each write
    refuse_disk,   ///< fails writes
    stale,         ///< sends messages of another generation
    hang,          ///< a lane, a supervisor or a node hangs, for a time or forever
    wrong_bits,    ///< flips one bit of a computed result
    damage,        ///< flips one bit of a kept state, between two generations
    refuse_last,   ///< fails writes of the last checkpoint
    refuse_reads,  ///< fails reads of checkpoints
  };

  kind what = kind::kill_actor;
  std::string who = {};     ///< name of an actor ("stage"); for links "tickets", "groups" or "all"
  std::uint64_t which = 0;  ///< index among those with that name, modulo the number alive
  /// Virtual time, if there is no moment; for a lane, the number of the task.
  std::uint64_t at_ns = 0;
  /// For hangs and wrong bits: the name of the moment as in planted_death.hpp, and the step.
  std::optional<moment_of_step> moment = {};
  /// Duration: of a partition, of each write to a slow disk, or of a hang.
  std::uint64_t lasts_ns = 0;
  std::uint64_t how_often = 0;                 ///< number of failures
  std::array<std::uint64_t, 2> heard_ns = {};  ///< links: delay until each end detects the loss
};

/// Part of the reason of a run that ends by an injected death.
inline constexpr std::string_view killed_text = "killed by the simulation";
/// Part of the reason of a run that ends by a broken connection.
inline constexpr std::string_view broken_text = "broken by the simulation";

/// Types of messages that can be moments.
std::vector<std::string> moments();

/// Draws faults that a run must survive; without recovery it must end in order. With recovery there
/// are up to three deaths, and some strike during a recovery. With several processes, processes
/// die, the network partitions and connections break.
std::vector<disturbance> draw_disturbances(choices& from, bool recovers, int processes = 1);
std::string to_string(const disturbance& x);

}  // namespace troupe::actors::simulation
