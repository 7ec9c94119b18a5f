// OpenSSL keeps what went wrong in a queue of each thread, which has to be empty before a call:
// SSL_get_error takes what lies there for the call's own. CAF 0.17 leaves it there. The thread that
// serves all connections of a process would then, after one of them has broken or a stranger has
// sent garbage, find the next one broken, too.
//
// So the calls of OpenSSL that CAF makes come here first, and begin with an empty queue.

#pragma once

namespace troupe::runtime {

/// Does nothing: whoever calls it is linked with those that stand between CAF and OpenSSL.
void keep_tls_errors_apart();

}  // namespace troupe::runtime
