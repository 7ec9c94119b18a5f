// "s3://bucket/key": objects as paths name them.

#pragma once

#include <string>
#include <string_view>

namespace troupe::runtime {

struct object_url {
  std::string bucket;
  std::string key;  ///< without the "/" before it, as the user wrote it: not percent-encoded

  friend bool operator==(const object_url&, const object_url&) = default;
};

/// Whether a path names an object and no file: it begins with "s3://".
bool is_object_url(std::string_view path);

/// Throws input_error, which says what is wrong with bucket or key.
object_url parse_object_url(std::string_view text);

std::string to_string(const object_url& x);  ///< "s3://bucket/key"

/// What a URL has for a key: everything but letters, digits, "-._~/" as %XX.
std::string percent_encoded(std::string_view key);

}  // namespace troupe::runtime
