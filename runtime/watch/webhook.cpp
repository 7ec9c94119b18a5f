#include "runtime/watch/webhook.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/shortened.hpp"
#include "runtime/http/client.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>

namespace troupe::runtime {
namespace {

constexpr std::size_t shown_url_bytes = 200;
constexpr http::client_limits webhook_limits{.connect = std::chrono::seconds(5),
                                             .silence = std::chrono::seconds(10),
                                             .answer_bytes = 1 << 20};

struct url_parts {
  std::string server, target;  ///< "https://HOST:PORT", "/PATH?QUERY"
};

url_parts split_url(std::string_view url) {
  const auto scheme = url.find("://");
  const auto name = url.substr(0, std::min(scheme, url.size()));
  const auto is_plain = [](unsigned char x) { return x > ' ' && x < 127; };
  const auto begin = scheme == std::string_view::npos ? url.size() : scheme + 3;
  const auto end = std::min({url.find('/', begin), url.find('?', begin), url.size()});
  if ((name != "http" && name != "https") || begin >= end || !std::ranges::all_of(url, is_plain))
    throw input_error(
        "cannot post to '{}': it is not a URL; give http://HOST/PATH or https://HOST/PATH, with "
        "%-codes for blanks and letters beyond ASCII",
        shortened(http::url_without_user(url), shown_url_bytes));
  const auto rest = url.substr(end);
  return {std::string(url.substr(0, end)),
          rest.starts_with('/') ? std::string(rest) : "/" + std::string(rest)};
}

}  // namespace

void require_webhook(const std::string& url) {
  split_url(url);
}

void post_webhook(const std::string& url, const std::string& json) {
  const auto parts = split_url(url);
  http::service_address at;
  at.url = parts.server;
  at.by_proxy = true;
  const auto answer = http::client(at, webhook_limits).post(parts.target, json);
  if (answer.status < 200 || answer.status >= 300)
    throw io_error("cannot post to {}: the service answers with status {}; check the URL",
                   http::url_without_user(parts.server),  // a path may be secret
                   answer.status);
}

}  // namespace troupe::runtime
