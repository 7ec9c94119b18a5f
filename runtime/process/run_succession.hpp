// Files of a run's folder for succession: what a successor of the supervisor process reads, and
// where the run's other processes find it. docs/protocol/succession.md.

#pragma once

#include "runtime/process/run_folder.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The address at which a run's processes connect to its supervisor process.
struct rendezvous_place {
  std::uint32_t incarnation = 1;  ///< of the supervisor process; a successor has the next number
  std::string address;            ///< numeric
  std::uint16_t port = 0;
  /// Newest started incarnation of each place, so that none is reused. Empty: the host agents that
  /// started the places know.
  std::vector<std::uint32_t> places = {};
  /// Next round of the run's arbiter (arbiter.hpp); 0: no arbiter.
  std::uint32_t round = 0;
  bool operator==(const rendezvous_place&) const = default;
};

/// Throws io_error.
void write_rendezvous(const run_folder& to, const rendezvous_place& x);
/// Empty if there is none, for example when the run has no succession. Throws input_error when the
/// file is damaged.
std::optional<rendezvous_place> find_rendezvous(const run_folder& in);

/// No process finds the supervisor through it afterwards. Throws io_error.
void remove_rendezvous(const run_folder& of);

/// The supervisor process's order, and the job as the other processes got it: any texts. Throw
/// io_error.
void write_order(const run_folder& to, const std::string& order);
void write_description(const run_folder& to, const std::string& description);
/// Throw input_error when the file is missing: the run then has no successor.
std::string read_order(const run_folder& in);
std::string read_description(const run_folder& in);

/// Publishes whether this process, a host agent, starts a successor when the supervisor process is
/// gone. Throws io_error.
void promise_succession(const run_folder& to, bool promised);

/// Whether a run continues without its supervisor process: it has a rendezvous, and a running agent
/// of this host has promised a successor, or the successor runs already.
bool has_succession(const run_folder& of);

/// NAME=VALUE for the environment of a successor: when its starter noticed the loss.
std::string told_when_gone(std::chrono::steady_clock::time_point noticed);
/// The time from told_when_gone, in nanoseconds of the steady clock, which the processes of a host
/// share; the current time when the variable is not set.
std::uint64_t owner_gone_ns();

}  // namespace troupe::runtime
