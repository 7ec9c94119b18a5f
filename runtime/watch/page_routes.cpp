#include "runtime/watch/page_routes.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::runtime {
namespace {

// PAGE-2 (https://www.w3.org/TR/CSP3/). The page has no inline scripts and styles. Chart.js sets
// styles by the CSSOM, which a policy does not restrict.
constexpr const char* page_policy
    = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
      "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

constexpr int not_modified = 304;

/// Evaluates If-None-Match, such as `"a", W/"b"` (RFC 9110, section 13.1.2).
bool has_tag(std::string_view header, std::string_view tag) {
  return header == "*" || header.find(tag) != std::string_view::npos;
}

void answer_with(const page_file& file, http::exchange& to) {
  const auto tag = '"' + std::string(file.hash) + '"';
  http::response out{
      .type = std::string(file.type),
      .body = {},
      .headers
      = {{"Cache-Control", "no-cache"}, {"ETag", tag}, {"Content-Security-Policy", page_policy}}};
  if (has_tag(to.asked().header("if-none-match"), tag))
    out.status = not_modified;
  else
    out.body = file.bytes;
  to.answer(std::move(out));
}

}  // namespace

std::vector<http::server::route> page_routes(std::span<const page_file> files) {
  std::vector<http::server::route> out;
  for (const auto& file : files)
    out.push_back({http::method::get,
                   std::string(file.path),
                   [&file](const std::shared_ptr<http::exchange>& x) { answer_with(file, *x); }});
  return out;
}

}  // namespace troupe::runtime
