// JSON from files that nobody vouches for.

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// How much JSON is accepted.
struct json_limits {
  std::size_t bytes = std::size_t{100} << 20;
  int depth = 32;
  /// Where it is named, what else the outermost object has may be this long, about.
  const char* long_member = nullptr;
  std::size_t other_bytes = 0;
};

/// The value written in `text`. `where` begins the message when it is refused ("'/a/b.json'").
/// Throws input_error for what is not JSON, too long, too deep, or names a key twice in one object.
nlohmann::json parse_json(std::string_view text, const std::string& where, json_limits most = {});

/// `value` as one short line of ASCII, to be shown in a message.
std::string shown(const nlohmann::json& value);

/// A member of an object that is known to be one. Throws input_error, beginning with `where` and
/// naming the key, when it is missing or of another type.
const nlohmann::json& member(const nlohmann::json& object,
                             const char* key,
                             const std::string& where);
std::string string_member(const nlohmann::json& object, const char* key, const std::string& where);
/// From 0 to 2^63 - 1.
std::int64_t count_member(const nlohmann::json& object, const char* key, const std::string& where);
const nlohmann::json& object_member(const nlohmann::json& object,
                                    const char* key,
                                    const std::string& where);

}  // namespace troupe::runtime
