// Requests to a server of this room, or to another web service, by libcurl.

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

/// Where a client asks.
struct service_address {
  std::string url;                    ///< "http://127.0.0.1:7000", without a path
  std::filesystem::path folder = {};  ///< not empty: by the Unix socket of this name in this folder
  std::string socket = {};
  std::string token = {};                ///< sent as bearer token; never in an error
  std::filesystem::path authority = {};  ///< PEM; empty: the system's certificates
  /// Asks through the proxy that http_proxy or https_proxy names, which then sees the token.
  /// Default: asks directly.
  bool by_proxy = false;
};

struct client_limits {
  std::chrono::seconds connect{10};
  std::chrono::seconds silence{30};     ///< without a byte: given up; not with an `idle`
  std::size_t answer_bytes = 16 << 20;  ///< of one answer that is not followed
};

/// One connection, kept between requests. One thread.
class client {
 public:
  explicit client(service_address at, const client_limits& limits = {});
  ~client();
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  /// `target` such as "/api/status?x=1", encoded. Throws io_error when there is no whole answer; an
  /// answer with any status is returned, with headers in lower case.
  response get(const std::string& target);
  /// `idle` is called about once a second and ends the request by returning false, which throws
  /// `cancelled`.
  response post(const std::string& target,
                const std::string& body,
                const std::string& type = "application/json",
                const std::function<bool()>& idle = {});

  /// Gives the parts of an answer to `take` as they arrive, until it returns false or the answer
  /// ends. `idle` is called about once a second and ends the request by returning false; the status
  /// is 0 if no answer had begun. An answer with a status of 300 or more is returned instead.
  /// `begun` is called once, after the headers of an answer that is followed.
  response follow(const std::string& target,
                  const std::function<bool(std::string_view part)>& take,
                  const std::function<bool()>& idle,
                  const std::function<void()>& begun = {});

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// Splits what `follow` takes into lines.
class line_splitter {
 public:
  /// Calls `take` with each complete line, without its end. Returns false when `take` did. Throws
  /// input_error for a line above `longest` bytes.
  bool feed(std::string_view part, const std::function<bool(std::string_view)>& take);
  explicit line_splitter(std::size_t longest = 8 << 20) : longest_(longest) {}

 private:
  std::size_t longest_;
  std::string kept_;
};

}  // namespace troupe::runtime::http
