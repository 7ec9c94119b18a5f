// Reads the requests of one connection from its bytes, with the server's limits (HTTP-1, HTTP-2).
// Used only by the sources in runtime/http.

#pragma once

#include "runtime/http/server.hpp"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

namespace troupe::runtime::http {

/// A complete, well-formed request.
struct parsed_request {
  request asked;          ///< without `peer` and `is_local`
  unsigned version = 11;  ///< 11: HTTP/1.1; 10: HTTP/1.0
  bool keeps = false;     ///< the connection stays open after the answer
};

/// Begin each request with `begin`. Used by one thread.
class request_reader {
 public:
  explicit request_reader(const limits& most) : most_(most) {}

  void begin();
  /// Parses the next bytes and removes them from `from`. Returns the refusal of a wrong request, if
  /// any; the connection must end after it.
  std::optional<response> read(boost::beast::flat_buffer& from);
  bool is_done() const { return parser_->is_done(); }
  /// True once, after the headers of a request whose client awaits "100 Continue".
  bool should_continue();
  /// Moves the request to `to`, after `is_done`. Returns a refusal as `read`.
  std::optional<response> take(parsed_request& to);

 private:
  using parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  std::optional<response> count(std::size_t used, std::size_t left);
  std::optional<response> take_header();
  bool wants_to_continue() const;

  const limits most_;
  std::optional<parser> parser_;
  bool asked_to_continue_ = false, has_header_ = false;
  std::size_t header_bytes_ = 0, body_bytes_ = 0;  ///< taken by the parser
  std::map<std::string, std::string> headers_;     ///< names in lower case
};

}  // namespace troupe::runtime::http
