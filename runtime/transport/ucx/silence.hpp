// Ends connections to peers that have fallen silent.
//
// The end of a process closes its connections. When a network path drops packets, no one is told:
// TCP alone retries for a quarter of an hour. So the sockets get a timeout. Unacknowledged data
// ends the connection after it. On an idle connection, keepalive probes are sent every third of the
// timeout, in whole seconds; the first unanswered probe after the timeout ends it.
//
// A stopped process is not silent while its system has buffer space, because the system
// acknowledges. When its buffers are full, the connection ends after the same timeout, although the
// system still answers probes.

#pragma once

#include "runtime/transport/ucx/door.hpp"

#include <chrono>
#include <span>

namespace troupe::runtime::ucx {

/// Ends the connection when the other system has not answered, or has not accepted pending data,
/// for `after`. 0: never.
void end_when_silent(int socket, std::chrono::milliseconds after);
/// Sets this timeout on the sockets that UCX opened between a worker and the peer with that
/// address.
void end_when_silent(const door& own,
                     std::span<const char> address_of_peer,
                     std::chrono::milliseconds after);

}  // namespace troupe::runtime::ucx
