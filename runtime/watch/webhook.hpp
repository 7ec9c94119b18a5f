// Posts JSON to a web service of the user: an alarm to a chat, a ticket to a queue.

#pragma once

#include <string>

namespace troupe::runtime {

/// Waits up to 5 s for a connection and 10 s without a byte. Follows no redirection. Uses
/// the proxy that http_proxy or https_proxy names. Throws
/// input_error for a text that is not http://HOST... or https://HOST..., and io_error when the
/// service is unreachable or answers with a status other than 2xx.
void post_webhook(const std::string& url, const std::string& json);

}  // namespace troupe::runtime
