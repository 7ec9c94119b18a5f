// Requests and responses of HTTP/1.1 (RFC 9112), as values.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::runtime::http {

enum class method { get, head, post, put, erase, options };

/// "GET"; `erase` is DELETE.
std::string_view name_of(method x);

struct request {
  http::method method = http::method::get;
  std::string path;                          ///< decoded, begins with '/', no "." or ".." parts
  std::map<std::string, std::string> query;  ///< decoded; the last of several equal names wins
  /// Names in lower case. Values of equal names are joined by ", ".
  std::map<std::string, std::string> headers;
  std::string body;
  std::string peer;       ///< "127.0.0.1:51234"; "local" for a Unix socket
  bool is_local = false;  ///< came by a Unix socket, so from this user

  /// The value of a header; empty if it is missing. `name`: in lower case.
  std::string_view header(const std::string& name) const;
};

/// A decoded request target, such as "/a%20b?x=1&y".
struct parsed_target {
  std::string authority;  ///< "HOST:PORT" of a target "http://HOST:PORT/path"; else empty
  std::string path;
  std::map<std::string, std::string> query;
};
/// Empty for a malformed target: the path does not begin with '/', has "." or ".." parts, a broken
/// percent code or a control character.
std::optional<parsed_target> parse_target(std::string_view target);

using header_list = std::vector<std::pair<std::string, std::string>>;

struct response {
  int status = 200;
  std::string type = "application/json";  ///< Content-Type
  std::string body;
  header_list headers = {};  ///< additional headers
};

/// {"error": {"message": ...}}: the format of errors that OpenAI's clients read.
response error_response(int status, std::string_view message);

/// The token of "Authorization: Bearer TOKEN"; empty without one.
std::string_view bearer_token(const request& x);

/// Compares in a time that depends only on the lengths. False if `expected` is empty.
bool is_token(std::string_view given, std::string_view expected);

/// One server-sent event. `data` may have several lines. A browser sends the newest `id` as
/// Last-Event-ID when it reconnects.
/// https://html.spec.whatwg.org/multipage/server-sent-events.html
std::string event_text(std::string_view data, std::string_view name = {}, std::string_view id = {});

}  // namespace troupe::runtime::http
