// What the successor of a supervisor's process finds in the run's folder, and where the run's other
// processes find it: docs/protocol/succession.md.

#pragma once

#include "runtime/process/run_folder.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Where the processes of a run find the one that decides.
struct rendezvous_place {
  std::uint32_t incarnation = 1;  ///< of the supervisor's process: a successor has the next
  std::string address;            ///< numeric
  std::uint16_t port = 0;
  /// The newest incarnation of each place that was started, so that none comes again; none: whoever
  /// has started them is asked.
  std::vector<std::uint32_t> places = {};
  /// The next round of the run's arbiter (arbiter.hpp); 0: it has none.
  std::uint32_t round = 0;
  bool operator==(const rendezvous_place&) const = default;
};

/// Throws io_error.
void write_rendezvous(const run_folder& to, const rendezvous_place& x);
/// Nothing: there is none, as of a run that nobody is to go on with. Throws input_error for one
/// that is damaged.
std::optional<rendezvous_place> find_rendezvous(const run_folder& in);

/// Nobody is to be found by it any more. Throws io_error.
void remove_rendezvous(const run_folder& of);

/// What the supervisor's process was to do, and the job as the others were told it: any texts.
/// Throw io_error.
void write_order(const run_folder& to, const std::string& order);
void write_description(const run_folder& to, const std::string& description);
/// Throw input_error: a run without has no successor.
std::string read_order(const run_folder& in);
std::string read_description(const run_folder& in);

/// This process, which is a host agent, starts a successor when the run's supervisor's process is
/// gone; or does so no more. Throws io_error:
/// it cannot be written.
void promise_succession(const run_folder& to, bool promised);

/// Whether somebody goes on with a run whose supervisor's process is gone: it has a rendezvous, and
/// an agent of this host runs that has promised it, or the successor does already.
bool has_succession(const run_folder& of);

/// NAME=VALUE, for the environment of a successor: when the loss of the process before it was
/// noticed by who starts it.
std::string told_when_gone(std::chrono::steady_clock::time_point noticed);
/// As this process was told, in nanoseconds of that clock, which the processes of a host share; the
/// time now where it was not.
std::uint64_t owner_gone_ns();

}  // namespace troupe::runtime
