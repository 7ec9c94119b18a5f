// Connections over which nothing comes any more.
//
// A peer that ends says so, and its system does where it cannot. Of a way that loses what is sent,
// in one direction or both, nobody says anything: TCP alone tries again for a quarter of an hour.
// So the system is told for how long a connection may stay without an answer of the other system:
// what was sent and is not acknowledged ends it after that time, an idle one the first look at it
// that falls after it, looks being a third of it apart, in whole seconds.
//
// A process that stands still is no silence as long as its system has room for what is sent to it,
// for then that answers. One whose buffers are full has said that nothing more is to be sent; that
// it answers looks at this counts for nothing, and it is cut off after the same time.

#pragma once

#include "runtime/transport/ucx/door.hpp"

#include <chrono>
#include <span>

namespace troupe::runtime::ucx {

/// The system ends this connection when the other one has not answered for so long, or has taken
/// nothing of what waits for it. 0: never.
void end_when_silent(int socket, std::chrono::milliseconds after);
/// The same of those that UCX has made between a worker and the peer with that address.
void end_when_silent(const door& own,
                     std::span<const char> address_of_peer,
                     std::chrono::milliseconds after);

}  // namespace troupe::runtime::ucx
