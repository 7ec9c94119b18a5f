#include "runtime/hub/hub_request.hpp"

#include "runtime/core/error.hpp"
#include "runtime/object/http_answer.hpp"

#include <exception>
#include <memory>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr const char* doing = "cannot ask the Hugging Face Hub";
constexpr std::size_t longest_body = std::size_t(16) << 20;
constexpr std::size_t longest_text = 1000;  // bytes of a header
constexpr int most_hops = 8;
constexpr long connect_seconds = 10;
constexpr long silence_seconds = 20;  // an attempt fails after this time below 1 KiB per second

struct receiving {
  CURL* from;
  hub_answer* to;
  const hub_sink* sink;
  std::exception_ptr thrown = {};
};

long status_of(CURL* handle) {
  long out = 0;
  curl().info(handle, CURLINFO_RESPONSE_CODE, &out);
  return out;
}

/// A return value other than `size` ends the transfer.
std::size_t take_bytes(char* data, std::size_t, std::size_t size, void* opaque) {
  auto& x = *static_cast<receiving*>(opaque);
  return caught(x.thrown, std::size_t(0), [&] {
    const auto status = status_of(x.from);
    if (*x.sink && (status == 200 || status == 206)) {
      x.to->status = status;
      (*x.sink)(*x.to, {data, size});
      return size;
    }
    const bool fits = size <= longest_body - x.to->body.size();
    if (!fits && status < 300) {
      x.to->failure = "the answer is longer than 16 MiB";
      return std::size_t(0);
    }
    if (fits)
      x.to->body.append(data, size);
    return size;
  });
}

void take_line(std::string_view line, hub_answer& to) {
  static constexpr std::pair<const char*, std::string hub_answer::*> known[]
      = {{"x-repo-commit", &hub_answer::commit},
         {"x-linked-etag", &hub_answer::linked_etag},
         {"x-linked-size", &hub_answer::linked_size},
         {"etag", &hub_answer::etag},
         {"content-length", &hub_answer::length},
         {"content-range", &hub_answer::content_range},
         {"x-error-code", &hub_answer::error_code}};
  if (line.starts_with("HTTP/"))  // answers of a proxy, or status 100, may precede this one
    for (const auto& entry : known)
      (to.*entry.second).clear();
  const auto header = parse_http_header(line);
  for (const auto& [name, member] : known)
    if (header && header->name == name)
      to.*member = printable_ascii(header->value.substr(0, longest_text));
}

std::size_t take_hub_header(char* data, std::size_t, std::size_t size, void* opaque) {
  auto& x = *static_cast<receiving*>(opaque);
  return caught(x.thrown, std::size_t(0), [&] {
    take_line({data, size}, *x.to);
    return size;
  });
}

bool is_redirection(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

struct hub_connection::hop {
  std::string address;
  bool head;
  std::uint64_t offset;
  const hub_sink& sink;
};

hub_connection::hub_connection(hub_service service)
    : service_(std::move(service)), curl_(nullptr, curl().cleanup) {
  curl_.reset(curl().init());
  if (!curl_)
    throw io_error("cannot ask the Hugging Face Hub: libcurl gives no connection");
}

hub_connection::~hub_connection() = default;

hub_answer hub_connection::ask(const hop& x) {
  CURL* const handle = curl_.get();
  hub_answer out;
  receiving to{handle, &out, &x.sink};
  curl_headers headers(doing);
  char failure[CURL_ERROR_SIZE] = "";
  // Until then libcurl may write to `failure`, and the handle has the token. Keeps the connection.
  const std::unique_ptr<CURL, decltype(curl().reset)> reset(handle, curl().reset);
  const auto set = [handle](CURLoption option, auto value) {
    require_curl(curl().set(handle, option, value), doing);
  };
  set(CURLOPT_URL, x.address.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "troupe");
  set(CURLOPT_ERRORBUFFER, failure);
  set(CURLOPT_CONNECTTIMEOUT, connect_seconds);
  set(CURLOPT_LOW_SPEED_LIMIT, 1024L);
  set(CURLOPT_LOW_SPEED_TIME, silence_seconds);
  set(CURLOPT_WRITEFUNCTION, take_bytes);
  set(CURLOPT_WRITEDATA, &to);
  set(CURLOPT_HEADERFUNCTION, take_hub_header);
  set(CURLOPT_HEADERDATA, &to);
  if (!service_.certificates.empty())
    set(CURLOPT_CAINFO, service_.certificates.c_str());
  if (x.head)
    set(CURLOPT_NOBODY, 1L);
  else if (x.offset > 0)
    set(CURLOPT_RANGE, fmt::format("{}-", x.offset).c_str());
  headers.add("Accept-Encoding: identity");  // hashes and sizes are those of the file
  // DOWNLOAD-1
  if (!service_.token.empty() && origin_of(x.address) == origin_of(service_.endpoint))
    headers.add("Authorization: Bearer " + service_.token);
  set(CURLOPT_HTTPHEADER, headers.first());
  const auto code = curl().perform(handle);
  if (to.thrown)
    std::rethrow_exception(to.thrown);
  out.status = status_of(handle);
  if (code != CURLE_OK && out.failure.empty()) {
    out.failure = printable_ascii(failure[0] != '\0' ? failure : curl().text_of(code));
    out.may_pass = may_pass(code);
    out.unreachable = is_unreachable(code);
  }
  const char* location = nullptr;
  if (is_redirection(out.status)
      && curl().info(handle, CURLINFO_REDIRECT_URL, &location) == CURLE_OK && location != nullptr)
    out.location = location;
  return out;
}

hub_answer hub_connection::read(const std::string& path,
                                std::uint64_t offset,
                                const hub_sink& sink) {
  auto address = service_.endpoint + path;
  for (int hops = 0;; ++hops) {
    auto out = ask({address, false, offset, sink});
    if (out.location.empty() || !out.failure.empty())
      return out;
    if (hops == most_hops
        || (address.starts_with("https://") && !out.location.starts_with("https://"))) {
      out.failure = hops == most_hops ? "it redirects too often"
                                      : "it redirects from https to an unencrypted address";
      return out;
    }
    address = out.location;
  }
}

hub_answer hub_connection::head(const std::string& path) {
  auto address = service_.endpoint + path;
  for (int hops = 0;; ++hops) {
    auto out = ask({address, true, 0, {}});
    if (out.location.empty() || hops == most_hops || !out.linked_etag.empty()
        || origin_of(out.location) != origin_of(service_.endpoint))
      return out;
    address = out.location;
  }
}

std::string_view origin_of(std::string_view address) {
  const auto host = address.find("://");
  return host == std::string_view::npos ? address : address.substr(0, address.find('/', host + 3));
}

}  // namespace troupe::runtime
