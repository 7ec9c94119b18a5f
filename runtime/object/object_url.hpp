// Paths of objects: "s3://bucket/key".

#pragma once

#include <string>
#include <string_view>

namespace troupe::runtime {

struct object_url {
  std::string bucket;
  std::string key;  ///< without the leading "/", not percent-encoded

  friend bool operator==(const object_url&, const object_url&) = default;
};

/// True if a path names an object: it begins with "s3://".
bool is_object_url(std::string_view path);

/// Throws input_error with the mistake in bucket or key.
object_url parse_object_url(std::string_view text);

std::string to_string(const object_url& x);  ///< "s3://bucket/key"

/// A key or another text as in a URL: everything except letters, digits and "-._~/" as %XX.
std::string percent_encoded(std::string_view key);

}  // namespace troupe::runtime
