#include "runtime/http/message.hpp"

#include "runtime/core/hmac.hpp"
#include "runtime/core/json_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace troupe::runtime::http {
namespace {

int hexadecimal(char x) {
  if (x >= '0' && x <= '9')
    return x - '0';
  if (x >= 'a' && x <= 'f')
    return x - 'a' + 10;
  if (x >= 'A' && x <= 'F')
    return x - 'A' + 10;
  return -1;
}

/// Percent-decoded text. Empty for a broken percent code or a control character. `form`: '+'
/// means a blank.
std::optional<std::string> decoded(std::string_view text, bool form) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto x = text[i];
    if (x == '%') {
      if (text.size() - i < 3)
        return {};
      const auto high = hexadecimal(text[i + 1]), low = hexadecimal(text[i + 2]);
      if (high < 0 || low < 0)
        return {};
      x = char(high * 16 + low);
      i += 2;
    } else if (x == '+' && form) {
      x = ' ';
    }
    if (static_cast<unsigned char>(x) < ' ' || x == 127)
      return {};
    out += x;
  }
  return out;
}

bool has_dot_parts(std::string_view path) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('/', begin), path.size());
    const auto part = path.substr(begin, end - begin);
    if (part == "." || part == "..")
      return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

std::string_view name_of(method x) {
  switch (x) {
    case method::get:
      return "GET";
    case method::head:
      return "HEAD";
    case method::post:
      return "POST";
    case method::put:
      return "PUT";
    case method::erase:
      return "DELETE";
    case method::options:
      return "OPTIONS";
  }
  return "";
}

std::string_view request::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : found->second;
}

std::optional<parsed_target> parse_target(std::string_view target) {
  target = target.substr(0, target.find('#'));
  std::string authority;
  for (const std::string_view scheme : {"http://", "https://"})
    if (target.starts_with(scheme)) {
      target.remove_prefix(scheme.size());
      authority = target.substr(0, target.find('/'));
      target.remove_prefix(authority.size());
      if (authority.empty())
        return {};
      break;
    }
  const auto mark = target.find('?');
  auto path = decoded(target.substr(0, mark), false);
  if (!path || path->empty() || path->front() != '/' || has_dot_parts(*path))
    return {};
  parsed_target out{std::move(authority), std::move(*path), {}};
  if (mark == std::string_view::npos)
    return out;
  auto rest = target.substr(mark + 1);
  while (!rest.empty()) {
    const auto end = std::min(rest.find('&'), rest.size());
    const auto pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const auto equal = std::min(pair.find('='), pair.size());
    auto name = decoded(pair.substr(0, equal), true);
    auto value = decoded(pair.substr(std::min(equal + 1, pair.size())), true);
    if (!name || !value)
      return {};
    if (!name->empty())
      out.query.insert_or_assign(std::move(*name), std::move(*value));
  }
  return out;
}

response error_response(int status, std::string_view message) {
  return {
      .status = status,
      .body
      = json_text_replacing(nlohmann::json{{"error", {{"message", std::string(message)}}}}) + "\n"};
}

std::string_view bearer_token(const request& x) {
  constexpr std::string_view scheme = "bearer ";
  const auto value = x.header("authorization");
  if (value.size() <= scheme.size())
    return {};
  for (std::size_t i = 0; i < scheme.size(); ++i)
    if ((value[i] | 0x20) != (scheme[i] | 0x20))
      return {};
  return value.substr(std::min(value.find_first_not_of(' ', scheme.size()), value.size()));
}

bool is_token(std::string_view given, std::string_view expected) {
  return !expected.empty() && equal_in_constant_time(given, expected);
}

std::string event_text(std::string_view data, std::string_view name, std::string_view id) {
  std::string out;
  const auto line = [&](std::string_view field, std::string_view value) {
    out.append(field).append(": ").append(value).append("\n");
  };
  if (!id.empty())
    line("id", id);
  if (!name.empty())
    line("event", name);
  for (std::size_t begin = 0; begin <= data.size();) {
    const auto end = std::min(data.find('\n', begin), data.size());
    line("data", data.substr(begin, end - begin));
    begin = end + 1;
  }
  return out + "\n";
}

}  // namespace troupe::runtime::http
