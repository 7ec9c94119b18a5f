#include "runtime/object/http_answer.hpp"

#include <algorithm>

namespace troupe::runtime {

std::string printable_ascii(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(
      out, [](char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return out;
}

std::optional<http_header> parse_http_header(std::string_view line) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos)
    return std::nullopt;
  http_header out{std::string(line.substr(0, colon)), line.substr(colon + 1)};
  std::ranges::transform(out.name, out.name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  });
  auto& value = out.value;
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t'))
    value.remove_prefix(1);
  while (!value.empty() && (value.back() == '\r' || value.back() == '\n' || value.back() == ' '))
    value.remove_suffix(1);
  return out;
}

bool is_unreachable(CURLcode code) {
  return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY
         || code == CURLE_COULDNT_CONNECT;
}

bool may_pass(CURLcode code) {
  return is_unreachable(code) || code == CURLE_OPERATION_TIMEDOUT || code == CURLE_GOT_NOTHING
         || code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR || code == CURLE_PARTIAL_FILE
         || code == CURLE_SSL_CONNECT_ERROR || code == CURLE_HTTP2 || code == CURLE_HTTP2_STREAM;
}

bool may_pass(long status) {
  return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

}  // namespace troupe::runtime
