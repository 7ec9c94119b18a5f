// Reads the keywords of a JSON schema. Every function throws input_error, with the JSON pointer of
// the schema, for a keyword's value that it cannot use.

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace troupe::runtime {

/// The document must outlive this object.
class schema_reader {
 public:
  using json = nlohmann::ordered_json;

  explicit schema_reader(const json& document) : document_(document) {}

  [[noreturn]] static void refuse(const std::string& pointer, const std::string& why);

  /// The schema at the pointer of a "$ref" in the schema `from`.
  const json& resolved(const std::string& pointer, const std::string& from) const;

  static std::string text_at(const json& schema, const char* key, const std::string& pointer);
  /// Nothing without the key.
  static std::optional<std::int64_t> number_at(const json& schema,
                                               const char* key,
                                               const std::string& pointer);
  /// Bounds of a length.
  static std::pair<std::int32_t, std::int32_t> bounds_at(const json& schema,
                                                         const char* least,
                                                         const char* most,
                                                         const std::string& pointer);

  /// True for a keyword of some type, such as "minItems".
  static bool is_keyword_of_type(const std::string& key);
  static std::string type_of(const json& value);
  /// The types that "type" names, or that have keywords here; empty: all types.
  static std::set<std::string> types_of(const json& schema, const std::string& pointer);

  /// True only if no text of one schema fits the other.
  bool exclude(const json& first, const json& second, const std::string& pointer);

 private:
  const json& followed(const json& schema, const std::string& pointer) const;
  bool differ(const json& a, const json& b, const std::string& pointer);
  void compare(std::size_t more, const std::string& pointer);

  const json& document_;
  std::size_t compared_ = 0;
};

}  // namespace troupe::runtime
