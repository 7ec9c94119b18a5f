#include "runtime/http/request_reader.hpp"

#include "runtime/http/session.hpp"

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>
#include <cstdint>
#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace troupe::runtime::http {
namespace {

namespace wire = boost::beast::http;
using boost::system::error_code;

constexpr std::size_t most_fields = 100;  ///< header fields of a request
/// Allowance for the chunked coding of a body: sizes of chunks, their extensions and trailers. A
/// body may take twice its limit plus this on the wire.
constexpr std::size_t most_around_body = 64 << 10;

std::optional<method> method_of(wire::verb x) {
  switch (x) {
    case wire::verb::get:
      return method::get;
    case wire::verb::head:
      return method::head;
    case wire::verb::post:
      return method::post;
    case wire::verb::put:
      return method::put;
    case wire::verb::delete_:
      return method::erase;
    case wire::verb::options:
      return method::options;
    default:
      return {};
  }
}

response refusal_of(const error_code& failed, const limits& most) {
  if (failed == wire::error::header_limit)
    return error_response(431, fmt::format("the headers exceed {} bytes", most.header_bytes));
  if (failed == wire::error::body_limit)
    return error_response(413, fmt::format("the body exceeds {} bytes", most.body_bytes));
  return error_response(400, "not a request of HTTP/1.1: " + failed.message());
}

}  // namespace

void request_reader::begin() {
  parser_.emplace();
  parser_->eager(false);  // stops after the headers, before trailers can join them
  parser_->header_limit(std::uint32_t(most_.header_bytes));
  parser_->body_limit(most_.body_bytes);
  asked_to_continue_ = has_header_ = false;
  header_bytes_ = body_bytes_ = 0;
  headers_.clear();
}

std::optional<response> request_reader::read(boost::beast::flat_buffer& from) {
  while (from.size() > 0 && !parser_->is_done()) {
    error_code failed;
    const auto used = parser_->put(from.data(), failed);
    from.consume(used);
    if (failed && failed != wire::error::need_more)
      return refusal_of(failed, most_);
    if (auto no = count(used, from.size()))
      return no;
    if (failed || used == 0)
      break;
  }
  return {};
}

/// Counts the bytes that the parser consumed, because its own limits ignore some of them. Takes the
/// headers as soon as they are complete, so that trailers cannot change them. Returns the refusal,
/// if any. `left`: bytes that the parser has not consumed.
std::optional<response> request_reader::count(std::size_t used, std::size_t left) {
  (has_header_ ? body_bytes_ : header_bytes_) += used;
  const auto unread = used == 0 ? left : 0;  // a line without an end
  if (has_header_)
    return body_bytes_ + unread > 2 * most_.body_bytes + most_around_body
               ? std::optional(refusal_of(wire::error::body_limit, most_))
               : std::nullopt;
  has_header_ = parser_->is_header_done();
  if (!has_header_)
    return header_bytes_ + unread > most_.header_bytes
               ? std::optional(refusal_of(wire::error::header_limit, most_))
               : std::nullopt;
  parser_->eager(true);
  return take_header();
}

std::optional<response> request_reader::take_header() {
  const auto& head = parser_->get();
  std::size_t fields = 0;
  for (const auto& field : head) {
    if (++fields > most_fields)
      return error_response(431, fmt::format("more than {} headers", most_fields));
    auto& value = headers_[lower_case({field.name_string().data(), field.name_string().size()})];
    value += (value.empty() ? "" : ", ") + std::string(field.value());
  }
  const auto codings = headers_.find("transfer-encoding");
  if (codings == headers_.end())
    return {};
  if (head.version() < 11 || headers_.contains("content-length"))
    return error_response(400,
                          "a request has either Content-Length or, in HTTP/1.1, Transfer-Encoding");
  if (!boost::beast::iequals(codings->second, "chunked"))
    return error_response(501, "unsupported Transfer-Encoding; this server accepts only chunked");
  return {};
}

bool request_reader::wants_to_continue() const {
  const auto& head = parser_->get();
  return head.version() >= 11 && boost::beast::iequals(head[wire::field::expect], "100-continue");
}

bool request_reader::should_continue() {
  return parser_->is_header_done() && !std::exchange(asked_to_continue_, true)
         && wants_to_continue();
}

std::optional<response> request_reader::take(parsed_request& to) {
  const auto message = parser_->release();
  to.keeps = message.keep_alive();
  to.version = message.version() == 10 ? 10 : 11;
  const auto how = method_of(message.method());
  auto target = parse_target({message.target().data(), message.target().size()});
  if (target && !target->authority.empty())
    headers_["host"] = target->authority;  // RFC 9112, 3.2.2
  if (message.version() != 10 && message.version() != 11)
    return error_response(505, "this server speaks HTTP/1.1");
  if (message.count(wire::field::host) > 1
      || (to.version == 11 && message.count(wire::field::host) == 0))
    return error_response(400, "a request needs exactly one header Host");
  if (!how || !target)
    return how ? error_response(400, "the target of the request is malformed")
               : error_response(501, "unknown method");
  to.asked = request{.method = *how,
                     .path = std::move(target->path),
                     .query = std::move(target->query),
                     .headers = std::move(headers_),
                     .body = message.body(),
                     .peer = {},
                     .is_local = false};
  return {};
}

}  // namespace troupe::runtime::http
