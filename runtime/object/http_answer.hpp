// Shared parts of all requests by libcurl: texts of a server, retries, callbacks.

#pragma once

#include "runtime/object/curl_library.hpp"

#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Replaces control characters and bytes outside ASCII in texts of a server.
std::string printable_ascii(std::string_view text);

struct http_header {
  std::string name;        ///< in lower case
  std::string_view value;  ///< without the white space around it
};

/// Parses a header line; empty without a colon, as in a status line.
std::optional<http_header> parse_http_header(std::string_view line);

bool is_unreachable(CURLcode code);  ///< no server answered
bool may_pass(CURLcode code);        ///< a retry after this transport error may succeed
bool may_pass(long status);          ///< a retry after this HTTP status may succeed

/// Calls `work` in a callback of libcurl. Keeps an exception in `thrown` and returns `ending`,
/// which ends the transfer: an exception must not pass through libcurl's C code.
template <class Value, class Work>
Value caught(std::exception_ptr& thrown, Value ending, const Work& work) noexcept {
  try {
    return work();
  } catch (...) {
    thrown = std::current_exception();
    return ending;
  }
}

}  // namespace troupe::runtime
