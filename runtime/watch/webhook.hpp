// Posts JSON to a web service of the user, such as an alarm to a chat.

#pragma once

#include <string>

namespace troupe::runtime {

/// Throws input_error for text that is not a URL http://HOST... or https://HOST....
void require_webhook(const std::string& url);

/// Timeouts: 5 s to connect, 10 s without a byte. Does not follow redirections. Uses the proxy that
/// http_proxy or https_proxy names.
///
/// Throws as require_webhook, and io_error if the service is unreachable, or answers with a status
/// other than 2xx. No error has the user and the password of the URL.
void post_webhook(const std::string& url, const std::string& json);

}  // namespace troupe::runtime
