#include "runtime/http/client.hpp"

#include "runtime/core/error.hpp"
#include "runtime/object/curl_library.hpp"
#include "runtime/object/http_answer.hpp"
#include "runtime/process/descriptor.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <utility>

namespace troupe::runtime::http {
namespace {

constexpr const char* doing = "cannot ask the server";
constexpr std::size_t longest_error = 64 << 10;  // body of an error answer to `follow`, in bytes

struct receiver {
  CURL* from = nullptr;
  response* to = nullptr;
  std::size_t most = 0;
  const std::function<bool(std::string_view)>* take = nullptr;  ///< null: the body is kept
  const std::function<bool()>* idle = nullptr;  ///< null: client_limits::silence applies
  const std::function<void()>* begun = nullptr;
  bool enough = false;  ///< `take` or `idle` ended the request
  bool too_long = false;
  std::exception_ptr thrown = {};
};

std::size_t take_body(char* data, std::size_t, std::size_t size, void* opaque) {
  auto& x = *static_cast<receiver*>(opaque);
  return caught(x.thrown, std::size_t(0), [&] {
    long status = 0;
    curl().info(x.from, CURLINFO_RESPONSE_CODE, &status);
    if (x.take != nullptr && status < 300) {
      x.enough = !(*x.take)({data, size});
      return x.enough ? std::size_t(0) : size;
    }
    const auto most = x.take != nullptr ? longest_error : x.most;
    x.too_long = size > most - std::min(most, x.to->body.size());
    if (x.too_long)
      return std::size_t(0);
    x.to->body.append(data, size);
    return size;
  });
}

std::size_t take_header(char* data, std::size_t, std::size_t size, void* opaque) {
  auto& x = *static_cast<receiver*>(opaque);
  return caught(x.thrown, std::size_t(0), [&] {
    if (std::string_view(data, size).starts_with("HTTP/"))
      x.to->headers.clear();
    if (const auto header = parse_http_header({data, size})) {
      x.to->headers.emplace_back(header->name, std::string(header->value));
      if (header->name == "content-type")
        x.to->type = header->value;
    }
    if (x.begun != nullptr && *x.begun && std::string_view(data, size) == "\r\n") {
      long status = 0;
      curl().info(x.from, CURLINFO_RESPONSE_CODE, &status);
      if (status >= 200 && status < 300)
        (*std::exchange(x.begun, nullptr))();
    }
    return size;
  });
}

int look(void* opaque, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& x = *static_cast<receiver*>(opaque);
  return caught(x.thrown, 1, [&] {
    x.enough = x.enough || (x.idle != nullptr && *x.idle && !(*x.idle)());
    return x.enough ? 1 : 0;
  });
}

}  // namespace

std::string url_without_user(std::string_view url) {
  const auto user = url.rfind('@');
  if (user == std::string_view::npos)
    return std::string(url);
  const auto scheme = url.substr(0, user).find("://");
  const auto kept = scheme == std::string_view::npos ? 0 : scheme + 3;
  return std::string(url.substr(0, kept)) + std::string(url.substr(user + 1));
}

struct client::state {
  service_address at;
  client_limits limits;
  CURL* handle = nullptr;
  descriptor folder;  ///< allows socket paths above the limit of 107 bytes

  std::string place() const {
    return at.folder.empty() ? url_without_user(at.url)
                             : fmt::format("'{}'", (at.folder / at.socket).string());
  }

  response ask(const std::string& target,
               const std::string* body,
               const std::string& type,
               receiver& to);
};

client::client(service_address at, const client_limits& limits)
    : state_(std::make_unique<state>()) {
  state_->at = std::move(at);
  state_->limits = limits;
  if (const auto& folder = state_->at.folder; !folder.empty()) {
    state_->folder = descriptor(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!state_->folder)
      throw io_error("cannot open the folder '{}': {}", folder.string(), system_message(errno));
    state_->at.url = "http://localhost";
  }
  state_->handle = curl().init();
  if (state_->handle == nullptr)
    throw io_error("{}: libcurl cannot create a handle; the process may be out of memory", doing);
}

client::~client() {
  curl().cleanup(state_->handle);
}

response client::state::ask(const std::string& target,
                            const std::string* body,
                            const std::string& type,
                            receiver& to) {
  response out;
  to.from = handle;
  to.to = &out;
  to.most = limits.answer_bytes;
  curl_headers headers(doing);
  char failure[CURL_ERROR_SIZE] = "";
  const auto set = [this](CURLoption option, auto value) {
    require_curl(curl().set(handle, option, value), doing);
  };
  curl().reset(handle);
  set(CURLOPT_URL, (at.url + target).c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "troupe");
  set(CURLOPT_ERRORBUFFER, failure);
  set(CURLOPT_CONNECTTIMEOUT, long(limits.connect.count()));
  set(CURLOPT_TCP_KEEPALIVE, 1L);  // detects a dead host during a long wait: within a minute,
  set(CURLOPT_TCP_KEEPIDLE, 10L);  // because Linux sends 9 probes
  set(CURLOPT_TCP_KEEPINTVL, 5L);
  if (to.idle == nullptr) {
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, long(limits.silence.count()));
  }
  set(CURLOPT_WRITEFUNCTION, take_body);
  set(CURLOPT_WRITEDATA, &to);
  set(CURLOPT_HEADERFUNCTION, take_header);
  set(CURLOPT_HEADERDATA, &to);
  set(CURLOPT_XFERINFOFUNCTION, look);
  set(CURLOPT_XFERINFODATA, &to);
  set(CURLOPT_NOPROGRESS, 0L);
  if (folder)
    set(CURLOPT_UNIX_SOCKET_PATH,
        fmt::format("/proc/self/fd/{}/{}", folder.number(), at.socket).c_str());
  if (folder || !at.by_proxy)
    set(CURLOPT_PROXY, "");
  if (!at.authority.empty())
    set(CURLOPT_CAINFO, at.authority.c_str());
  if (at.any_name)
    set(CURLOPT_SSL_VERIFYHOST, 0L);
  if (!at.token.empty())
    headers.add("Authorization: Bearer " + at.token);
  if (body != nullptr) {
    set(CURLOPT_POST, 1L);
    set(CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body->size()));
    set(CURLOPT_POSTFIELDS, body->c_str());
    headers.add("Content-Type: " + type);
  }
  set(CURLOPT_HTTPHEADER, headers.first());
  const auto code = curl().perform(handle);
  long status = 0;
  curl().info(handle, CURLINFO_RESPONSE_CODE, &status);
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(nullptr));
  if (to.thrown)
    std::rethrow_exception(to.thrown);
  if (to.too_long)
    throw io_error("the answer of {} is longer than {} bytes", place(), to.most);
  if (code != CURLE_OK && !to.enough) {
    long reason = 0;  // libcurl's text names a port that a Unix socket does not have
    curl().info(handle, CURLINFO_OS_ERRNO, &reason);
    throw io_error("{} at {}: {}",
                   doing,
                   place(),
                   folder && code == CURLE_COULDNT_CONNECT && reason != 0
                       ? system_message(int(reason))
                       : printable_ascii(failure[0] != '\0' ? failure : curl().text_of(code)));
  }
  out.status = int(status);
  return out;
}

response client::get(const std::string& target) {
  receiver to;
  return state_->ask(target, nullptr, {}, to);
}

response client::post(const std::string& target,
                      const std::string& body,
                      const std::string& type,
                      const std::function<bool()>& idle) {
  receiver to;
  if (idle)
    to.idle = &idle;
  auto out = state_->ask(target, &body, type, to);
  if (to.enough)
    throw cancelled();
  return out;
}

response client::follow(const std::string& target,
                        const std::function<bool(std::string_view)>& take,
                        const std::function<bool()>& idle,
                        const std::function<void()>& begun) {
  receiver to;
  to.take = &take;
  to.idle = &idle;
  to.begun = &begun;
  return state_->ask(target, nullptr, {}, to);
}

bool line_splitter::feed(std::string_view part, const std::function<bool(std::string_view)>& take) {
  kept_ += part;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = kept_.find('\n', begin)) != std::string::npos; begin = end + 1)
    if (!take(std::string_view(kept_).substr(begin, end - begin)))
      return false;
  kept_.erase(0, begin);
  if (kept_.size() > longest_)
    throw input_error("a line of the answer is longer than {} bytes", longest_);
  return true;
}

}  // namespace troupe::runtime::http
