#include "runtime/object/object_request.hpp"

#include "runtime/core/error.hpp"
#include "runtime/object/curl_library.hpp"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

constexpr const char* doing = "cannot read objects";
constexpr std::size_t longest_refusal = std::size_t(64) << 10;  // bytes of an error's body

struct receiver {
  CURL* from;
  object_answer* to;
  std::size_t most;  // maximum size of the body
};

/// Replaces control characters in texts of a service.
std::string printable(std::string_view text) {
  std::string out(text);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return out;
}

/// A return value other than `size` ends the transfer.
std::size_t take_body(char* data, std::size_t, std::size_t size, void* opaque) {
  auto& x = *static_cast<receiver*>(opaque);
  long status = 0;
  curl().info(x.from, CURLINFO_RESPONSE_CODE, &status);
  if (status >= 300) {
    x.to->body.append(
        data, std::min(size, longest_refusal - std::min(longest_refusal, x.to->body.size())));
    return size;
  }
  if (size > x.most - x.to->body.size()) {
    x.to->failure = "the answer is longer than requested";
    return 0;
  }
  x.to->body.append(data, size);
  return size;
}

std::size_t take_header(char* data, std::size_t, std::size_t size, void* opaque) {
  take_header_line({data, size}, *static_cast<receiver*>(opaque)->to);
  return size;
}

/// Called by libcurl each second, and more often during transfers.
int look_at_patience(void* opaque, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<patience*>(opaque)->is_over() ? 1 : 0;
}

/// Transport errors that a retry may fix.
bool may_pass(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

/// The text between <name> and </name>.
std::string element(std::string_view xml, std::string_view name) {
  const auto open = fmt::format("<{}>", name), close = fmt::format("</{}>", name);
  const auto begin = xml.find(open);
  if (begin == std::string_view::npos)
    return {};
  const auto rest = xml.substr(begin + open.size());
  const auto end = rest.find(close);
  if (end == std::string_view::npos)
    return {};
  return printable(rest.substr(0, std::min<std::size_t>(end, 200)));
}

}  // namespace

struct object_connections::state {
  object_limits limits;
  std::mutex mutex;
  std::vector<CURL*> idle;
};

object_connections::object_connections(const object_limits& limits)
    : state_(std::make_unique<state>()) {
  state_->limits = limits;
}

object_connections::~object_connections() {
  for (auto* const one : state_->idle)
    curl().cleanup(one);
}

object_answer object_connections::ask(const object_service& service,
                                      const object_request& request,
                                      patience& until) {
  CURL* handle = nullptr;
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->idle.empty()) {
      handle = state_->idle.back();
      state_->idle.pop_back();
    }
  }
  if (handle == nullptr && (handle = curl().init()) == nullptr)
    throw io_error("cannot read objects: libcurl gives no connection; there may be no memory left");
  std::unique_ptr<CURL, void (*)(CURL*)> closed(handle, curl().cleanup);

  object_answer out;
  receiver to{handle, &out, request.size};
  curl_headers headers(doing);
  char failure[CURL_ERROR_SIZE] = "";
  curl().reset(handle);  // keeps its connections
  const auto set = [handle](CURLoption option, auto value) {
    require_curl(curl().set(handle, option, value), doing);
  };
  set(CURLOPT_URL, address_of(service, request.object).c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "troupe");
  set(CURLOPT_ERRORBUFFER, failure);
  set(CURLOPT_CONNECTTIMEOUT, long(state_->limits.connect.count()));
  set(CURLOPT_LOW_SPEED_LIMIT, 1024L);
  set(CURLOPT_LOW_SPEED_TIME, long(state_->limits.silence.count()));
  set(CURLOPT_WRITEFUNCTION, take_body);
  set(CURLOPT_WRITEDATA, &to);
  set(CURLOPT_HEADERFUNCTION, take_header);
  set(CURLOPT_HEADERDATA, &to);
  set(CURLOPT_XFERINFOFUNCTION, look_at_patience);
  set(CURLOPT_XFERINFODATA, &until);
  set(CURLOPT_NOPROGRESS, 0L);
  if (!service.certificates.empty())
    set(CURLOPT_CAINFO, service.certificates.c_str());
  if (request.head)
    set(CURLOPT_NOBODY, 1L);
  else
    set(CURLOPT_RANGE,
        fmt::format("{}-{}", request.offset, request.offset + request.size - 1).c_str());
  if (!request.etag.empty())
    headers.add("If-Match: " + request.etag);
  if (const auto& who = service.credentials) {
    set(CURLOPT_AWS_SIGV4, ("aws:amz:" + service.region + ":s3").c_str());
    set(CURLOPT_USERNAME, who->id.c_str());
    set(CURLOPT_PASSWORD, who->secret.c_str());
    if (!who->session_token.empty())
      headers.add("x-amz-security-token: " + who->session_token);
  }
  set(CURLOPT_HTTPHEADER, headers.first());
  out.body.reserve(request.size);
  const auto code = curl().perform(handle);
  curl().info(handle, CURLINFO_RESPONSE_CODE, &out.status);
  if (code != CURLE_OK && out.failure.empty()) {
    out.failure = printable(failure[0] != '\0' ? failure : curl().text_of(code));
    out.given_up = code == CURLE_ABORTED_BY_CALLBACK;
    out.again = may_pass(code);
  }
  curl().reset(handle);  // removes all traces of this request, above all its credentials
  const std::lock_guard lock(state_->mutex);
  state_->idle.push_back(handle);
  static_cast<void>(closed.release());
  return out;
}

void take_header_line(std::string_view line, object_answer& out) {
  if (line.starts_with("HTTP/")) {
    out.etag.clear();
    out.content_range.clear();
    out.bucket_region.clear();
    out.length.reset();
  }
  const auto colon = line.find(':');
  if (colon == std::string_view::npos)
    return;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  });
  auto value = line.substr(colon + 1);
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t'))
    value.remove_prefix(1);
  while (!value.empty() && (value.back() == '\r' || value.back() == '\n' || value.back() == ' '))
    value.remove_suffix(1);
  if (name == "etag")
    out.etag = printable(value);
  else if (name == "content-range")
    out.content_range = printable(value);
  else if (name == "x-amz-bucket-region")
    out.bucket_region = printable(value);
  else if (name == "content-length")
    if (std::uint64_t length = 0;
        std::from_chars(value.data(), value.data() + value.size(), length).ec == std::errc())
      out.length = length;
}

object_refusal parse_refusal(std::string_view xml) {
  return {element(xml, "Code"), element(xml, "Message")};
}

std::optional<object_range> parse_content_range(std::string_view text) {
  object_range out;
  const auto number = [&text](std::uint64_t& to, std::string_view behind) {
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), to);
    if (wrong != std::errc())
      return false;
    text.remove_prefix(std::size_t(end - text.data()));
    if (!text.starts_with(behind))
      return false;
    text.remove_prefix(behind.size());
    return true;
  };
  constexpr std::string_view unit = "bytes ";
  if (!text.starts_with(unit))
    return std::nullopt;
  text.remove_prefix(unit.size());
  if (!number(out.first, "-") || !number(out.last, "/") || !number(out.whole, "") || !text.empty()
      || out.last < out.first || out.whole <= out.last)
    return std::nullopt;
  return out;
}

}  // namespace troupe::runtime
