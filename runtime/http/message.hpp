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
  std::map<std::string, std::string> query;  ///< decoded; the last of equal names counts
  std::map<std::string, std::string>
      headers;  ///< names in lower case; values of equal names joined by ", "
  std::string body;
  std::string peer;       ///< "127.0.0.1:51234"; "local" for a Unix socket
  bool is_local = false;  ///< by a Unix socket, so of this user

  /// Empty when it is missing. `name` in lower case.
  std::string_view header(const std::string& name) const;
};

/// What a target such as "/a%20b?x=1&y" names. Empty for a malformed target: no '/' at the
/// beginning, a broken percent code, a NUL or another control character, "." or ".." parts.
struct parsed_target {
  std::string authority;  ///< of "http://HOST:PORT/path", which a proxy may send; else empty
  std::string path;
  std::map<std::string, std::string> query;
};
std::optional<parsed_target> parse_target(std::string_view target);

using header_list = std::vector<std::pair<std::string, std::string>>;

struct response {
  int status = 200;
  std::string type = "application/json";  ///< Content-Type
  std::string body;
  header_list headers = {};  ///< further ones
};

/// {"error": {"message": ...}}: the form that OpenAI's clients show.
response error_response(int status, std::string_view message);

/// The token of "Authorization: Bearer TOKEN"; empty without one.
std::string_view bearer_token(const request& x);

/// Compares in a time that depends on the lengths alone. An empty `expected` equals nothing.
bool is_token(std::string_view given, std::string_view expected);

/// One event of a stream of server-sent events: `data` may have several lines. `id` is what a
/// browser sends as Last-Event-ID when it connects again.
/// https://html.spec.whatwg.org/multipage/server-sent-events.html
std::string event_text(std::string_view data, std::string_view name = {}, std::string_view id = {});

}  // namespace troupe::runtime::http
