// An HTTP client on libcurl, for the hub of a run and for other web services.
//
// Requests block. A request fails with io_error if no complete answer arrives; an answer with an
// error status is returned like any other.

#pragma once

#include "runtime/http/message.hpp"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::runtime::http {

/// The URL without "USER:PASSWORD@", for messages. Text up to the last '@' counts as the user, also
/// in text that is not a URL.
std::string url_without_user(std::string_view url);

/// The server that a client connects to.
struct service_address {
  /// "http://127.0.0.1:7000", without a path. A user and a password are never part of an error.
  std::string url;
  std::filesystem::path folder = {};  ///< if not empty: connect to the Unix socket `socket` in it
  std::string socket = {};
  std::string token = {};                ///< sent as bearer token; never part of an error
  std::filesystem::path authority = {};  ///< CA certificates (PEM); empty: those of the system
  /// Accepts a certificate of the authority with any name: it signs only for these servers.
  bool any_name = false;
  /// True: connects through the proxy that http_proxy or https_proxy names. The proxy of an http
  /// URL sees the token. False: connects directly.
  bool by_proxy = false;
};

struct client_limits {
  std::chrono::seconds connect{10};
  std::chrono::seconds silence{30};     ///< timeout without a byte; unused with `idle`
  std::size_t answer_bytes = 16 << 20;  ///< maximum size of an answer to `get` or `post`
};

/// One connection, kept between requests. Used by one thread.
class client {
 public:
  /// Does not connect yet. Throws io_error if the folder of the socket cannot be opened, or libcurl
  /// cannot be loaded.
  explicit client(service_address at, const client_limits& limits = {});
  ~client();
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  /// `target`: percent-encoded path and query, such as "/api/status?x=1". The names of the
  /// answer's headers are in lower case. Throws io_error if no complete answer arrives.
  response get(const std::string& target);
  /// Calls `idle` about once a second; throws `cancelled` when it returns false. Else as `get`.
  response post(const std::string& target,
                const std::string& body,
                const std::string& type = "application/json",
                const std::function<bool()>& idle = {});

  /// Passes the parts of an answer to `take` as they arrive, until `take` returns false or the
  /// answer ends. Calls `idle` about once a second; the request ends when it returns false. The
  /// returned status is 0 if the request ended before the answer began.
  ///
  /// Calls `begun` once, after the headers of an answer with a status of 2xx. An answer with a
  /// status of 300 or more is returned with its body, without a call of `take`. Exceptions of these
  /// functions end the request and are rethrown. Else throws as `get`.
  response follow(const std::string& target,
                  const std::function<bool(std::string_view part)>& take,
                  const std::function<bool()>& idle,
                  const std::function<void()>& begun = {});

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// Splits the parts of a followed answer into lines.
class line_splitter {
 public:
  /// Calls `take` with each complete line, without its line end. Stops and returns false when
  /// `take` returns false. Throws input_error for a line longer than `longest` bytes.
  bool feed(std::string_view part, const std::function<bool(std::string_view)>& take);
  explicit line_splitter(std::size_t longest = 8 << 20) : longest_(longest) {}

 private:
  std::size_t longest_;
  std::string kept_;
};

}  // namespace troupe::runtime::http
