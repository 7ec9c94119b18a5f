// Works around two faults of CAF 0.17 with OpenSSL, by interposing the functions of OpenSSL and
// epoll that CAF calls.
//
// OpenSSL keeps errors in a queue per thread, which must be empty before a call: SSL_get_error
// takes an old entry for the result of the new call. CAF leaves entries in the queue. One broken
// connection, or garbage from a stranger, would then break the next connection of the same thread.
// So each interposed call clears the queue first.
//
// Accepted connections without a certificate are tracked: tls_callers.hpp.

#pragma once

#include <chrono>

namespace troupe::runtime {

/// Activates the interposed functions: a program that calls this links them. `patience`: timeout
/// for a caller of any port of this process to show a certificate of the run.
void stand_before_tls(std::chrono::milliseconds patience);

/// Makes the kernel end each TLS connection without an acknowledgement for that long, also during
/// its handshake. CAF itself times out only connections after their handshake, and every later call
/// of the same port waits for the first one.
void end_tls_when_silent(std::chrono::milliseconds after);

/// Called when the process ends: CAF would wait for callers without a certificate, and for own
/// calls without an answer.
void hang_up_on_unknown_callers();

}  // namespace troupe::runtime
