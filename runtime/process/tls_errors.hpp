// What CAF 0.17 leaves undone between itself and OpenSSL. The calls of OpenSSL that it makes come
// here first.
//
// OpenSSL keeps what went wrong in a queue of each thread, which has to be empty before a call:
// SSL_get_error takes what lies there for the call's own. CAF leaves it there. The thread that
// serves all connections of a process would then, after one of them has broken or a stranger has
// sent garbage, find the next one broken, too. So each call begins with an empty queue.
//
// A caller who never shows who he is holds a descriptor for ever, and says nothing in any log. So
// the one who has taken longest makes room when there are many, and the first of each kind that is
// refused is told.

#pragma once

#include <cstddef>

namespace troupe::runtime {

/// Does nothing: whoever calls it is linked with those that stand between CAF and OpenSSL.
void keep_tls_errors_apart();

/// Callers that have not shown yet that they have a certificate of the run: as many may wait.
inline constexpr std::size_t most_unknown_tls_callers = 64;

}  // namespace troupe::runtime
