// What CAF 0.17 leaves undone between itself and OpenSSL. The calls of OpenSSL that it makes come
// here first, and those by which it tells the kernel what it waits for.
//
// OpenSSL keeps what went wrong in a queue of each thread, which has to be empty before a call:
// SSL_get_error takes what lies there for the call's own. CAF leaves it there. The thread that
// serves all connections of a process would then, after one of them has broken or a stranger has
// sent garbage, find the next one broken, too. So each call begins with an empty queue.
//
// Whoever has been accepted is counted until he has shown who he is: tls_callers.hpp.

#pragma once

#include <chrono>

namespace troupe::runtime {

/// Who calls this is linked with those that stand between CAF and OpenSSL. `patience`: for a caller
/// of any port of this process to show that it has a certificate of the run.
void stand_before_tls(std::chrono::milliseconds patience);

/// The process ends: CAF would wait for those who have not shown yet who they are.
void hang_up_on_unknown_callers();

}  // namespace troupe::runtime
