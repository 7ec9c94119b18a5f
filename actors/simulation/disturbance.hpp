// What a simulated run meets besides an unlucky order: deaths, parted networks, connections that
// break, slow and refusing disks, messages of other generations.

#pragma once

#include "actors/simulation/choices.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::actors::simulation {

/// When a message of this name is about to be handled for the n-th time, by whoever.
struct moment_of_step {
  std::string message;  ///< "decision"
  std::uint64_t count = 1;
};

struct disturbance {
  enum class kind {
    kill_actor,    ///< it ends, by its own fault
    kill_process,  ///< and all that it hosts
    kill_lane,     ///< its n-th piece of work fails
    drain,         ///< somebody asks for an early end
    part,          ///< messages from one process to another wait
    break_link,    ///< connections of data between two processes that live are lost
    slow_disk,     ///< each file takes long
    refuse_disk,   ///< files cannot be written
    stale,         ///< a message of another generation comes
    hang,          ///< a lane, a supervisor or a node does not go on, for that long or for ever
    wrong_bits,    ///< one bit of what it computed is another
    damage,        ///< one bit of what is kept is another, when a generation has ended
    refuse_last,   ///< files of the last checkpoint cannot be written
    refuse_reads,  ///< checkpoints cannot be read
  };

  kind what = kind::kill_actor;
  std::string who = {};     ///< an actor's name: "stage"; of links "tickets", "groups" or "all"
  std::uint64_t which = 0;  ///< of those with that name, modulo how many live
  std::uint64_t at_ns = 0;  ///< virtual time; where no moment is given. Of a lane: its work
  /// Of who hangs and of wrong bits: the moment's name in planted_death.hpp, and the step.
  std::optional<moment_of_step> moment = {};
  std::uint64_t lasts_ns = 0;                  ///< of parts, of slow disks each file, of who hangs
  std::uint64_t how_often = 0;                 ///< of refusals
  std::array<std::uint64_t, 2> heard_ns = {};  ///< of links: after how long each end hears of it
};

/// In the reason with which a run ends that was killed.
inline constexpr std::string_view killed_text = "killed by the simulation";
/// The same, of a connection.
inline constexpr std::string_view broken_text = "broken by the simulation";

/// Messages whose handling is a moment.
std::vector<std::string> moments();

/// Of the kinds that the protocol is to survive or, where it does not recover, to end at in order.
/// Where it recovers there are up to three deaths, of which some strike while it does.
/// Where ranks stand in several processes, these die and are parted, and connections between them
/// break.
std::vector<disturbance> draw_disturbances(choices& from, bool recovers, int processes = 1);
std::string to_string(const disturbance& x);

}  // namespace troupe::actors::simulation
