#include "runtime/object/object_url.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

constexpr std::string_view scheme = "s3://";
constexpr std::size_t longest_key = 1024;  // bytes; the limit of S3

bool letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

bool is_object_url(std::string_view path) {
  return path.starts_with(scheme);
}

object_url parse_object_url(std::string_view text) {
  const auto refuse = [&](const char* what) {
    throw input_error("'{}' names no object: {}; write s3://BUCKET/KEY", text, what);
  };
  if (!is_object_url(text))
    refuse("it does not begin with s3://");
  const auto rest = text.substr(scheme.size());
  const auto slash = rest.find('/');
  const auto bucket = rest.substr(0, slash);
  const auto key = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  if (bucket.size() < 3 || bucket.size() > 63
      || !std::all_of(bucket.begin(),
                      bucket.end(),
                      [](char c) { return letter_or_digit(c) || c == '.' || c == '-' || c == '_'; })
      || !letter_or_digit(bucket.front()) || !letter_or_digit(bucket.back()))
    refuse("a bucket has 3 to 63 letters, digits, dots and hyphens");
  if (key.empty())
    refuse("there is no key after the bucket");
  if (key.size() > longest_key)
    refuse("its key has more than 1024 bytes");
  if (std::any_of(key.begin(), key.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    refuse("its key has a control character");
  return {std::string(bucket), std::string(key)};
}

std::string to_string(const object_url& x) {
  return fmt::format("{}{}/{}", scheme, x.bucket, x.key);
}

std::string percent_encoded(std::string_view key) {
  std::string out;
  for (const char c : key)
    if (letter_or_digit(c) || std::string_view("-._~/").find(c) != std::string_view::npos)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

}  // namespace troupe::runtime
