#include "runtime/watch/viewer_token.hpp"

#include <algorithm>

namespace troupe::runtime {

// A browser's EventSource cannot set headers, so the page sends its token as a cookie.
bool gives_viewer_token(const http::request& x, std::string_view token) {
  if (http::is_token(bearer_token(x), token))
    return true;
  constexpr std::string_view prefix = "troupe_token_";
  bool out = false;
  auto rest = x.header("cookie");
  while (!rest.empty()) {
    const auto end = std::min(rest.find(';'), rest.size());
    auto one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
    const auto equals = std::min(one.find('='), one.size());
    if (one.starts_with(prefix) && equals < one.size())
      out = http::is_token(one.substr(equals + 1), token) || out;
  }
  return out;
}

bool has_viewer_token(const http::request& x) {
  return !bearer_token(x).empty() || !x.header("cookie").empty();
}

}  // namespace troupe::runtime
