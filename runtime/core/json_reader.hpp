// Parses JSON from untrusted files, with limits on size and depth.

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Limits of accepted JSON.
struct json_limits {
  std::size_t bytes = std::size_t{100} << 20;
  int depth = 32;
  /// If set, this member may use all of `bytes`; the rest of the outermost object is limited to
  /// about `other_bytes`.
  const char* long_member = nullptr;
  std::size_t other_bytes = 0;
};

/// Parses `text`. Error messages begin with `where` ("'/a/b.json'"). Throws input_error if the text
/// is not JSON, exceeds the limits, or repeats a key in an object.
nlohmann::json parse_json(std::string_view text, const std::string& where, json_limits most = {});

/// Renders `value` as a short line of ASCII for messages.
std::string shown(const nlohmann::json& value);

/// Returns a member of a JSON object. Throws input_error with `where` and the key if it is missing
/// or of another type.
const nlohmann::json& member(const nlohmann::json& object,
                             const char* key,
                             const std::string& where);
std::string string_member(const nlohmann::json& object, const char* key, const std::string& where);
/// Returns a whole number from 0 to 2^63 - 1.
std::int64_t count_member(const nlohmann::json& object, const char* key, const std::string& where);
const nlohmann::json& object_member(const nlohmann::json& object,
                                    const char* key,
                                    const std::string& where);

}  // namespace troupe::runtime
