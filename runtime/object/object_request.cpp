#include "runtime/object/object_request.hpp"

#include "runtime/core/error.hpp"
#include "runtime/object/http_answer.hpp"

#include <algorithm>
#include <charconv>
#include <exception>
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
  patience* until;
  std::exception_ptr thrown = {};
};

/// A return value other than `size` ends the transfer.
std::size_t take_body(char* data, std::size_t, std::size_t size, void* opaque) {
  auto& x = *static_cast<receiver*>(opaque);
  return caught(x.thrown, std::size_t(0), [&] {
    long status = 0;
    curl().info(x.from, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 300) {
      x.to->body.append(
          data, std::min(size, longest_refusal - std::min(longest_refusal, x.to->body.size())));
      return size;
    }
    if (size > x.most - x.to->body.size()) {
      x.to->failure = "the answer is longer than requested";
      return std::size_t(0);
    }
    x.to->body.append(data, size);
    return size;
  });
}

std::size_t take_header(char* data, std::size_t, std::size_t size, void* opaque) {
  auto& x = *static_cast<receiver*>(opaque);
  return caught(x.thrown, std::size_t(0), [&] {
    take_header_line({data, size}, *x.to);
    return size;
  });
}

/// Called by libcurl each second, and more often during transfers.
int look_at_patience(void* opaque, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& x = *static_cast<receiver*>(opaque);
  return caught(x.thrown, 1, [&] { return x.until->is_over() ? 1 : 0; });
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
  return printable_ascii(rest.substr(0, std::min<std::size_t>(end, 200)));
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
  object_answer out;
  receiver to{handle, &out, request.size, &until};
  curl_headers headers(doing);
  char failure[CURL_ERROR_SIZE] = "";
  // Ends before `failure`, to which libcurl may write until then.
  std::unique_ptr<CURL, void (*)(CURL*)> closed(handle, curl().cleanup);
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
  set(CURLOPT_XFERINFODATA, &to);
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
  if (to.thrown)
    std::rethrow_exception(to.thrown);
  curl().info(handle, CURLINFO_RESPONSE_CODE, &out.status);
  if (code != CURLE_OK && out.failure.empty()) {
    out.failure = printable_ascii(failure[0] != '\0' ? failure : curl().text_of(code));
    out.given_up = code == CURLE_ABORTED_BY_CALLBACK;
    out.again = may_pass(code);
  }
  curl().reset(handle);  // removes the credentials, and keeps the connection
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
  const auto header = parse_http_header(line);
  if (!header)
    return;
  const auto& [name, value] = *header;
  if (name == "etag")
    out.etag = printable_ascii(value);
  else if (name == "content-range")
    out.content_range = printable_ascii(value);
  else if (name == "x-amz-bucket-region")
    out.bucket_region = printable_ascii(value);
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
