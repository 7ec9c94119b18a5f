// The fields of a config.json of the Hub, with checks. Errors name the file and the field.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// The fields of a config.json. A field that is null counts as absent, as in the hub's own reader.
class hub_fields {
 public:
  hub_fields(nlohmann::json fields, std::string where)
      : fields_(std::move(fields)), where_(std::move(where)) {
    if (!fields_.is_object())
      throw input_error("{} should have a JSON object", where_);
  }

  bool has(const char* key) const { return fields_.contains(key); }

  const nlohmann::json* find(const char* key) const {
    const auto found = fields_.find(key);
    return found == fields_.end() || found->is_null() ? nullptr : &*found;
  }

  /// A whole number of at least `least`, which is 0 or 1.
  std::int64_t size(const char* key,
                    std::optional<std::int64_t> otherwise = {},
                    std::uint64_t least = 1) const {
    const auto* found = find(key);
    if (found == nullptr && otherwise)
      return *otherwise;
    if (found == nullptr)
      throw input_error("{}: '{}' is missing", where_, key);
    constexpr std::uint64_t largest = std::numeric_limits<std::int32_t>::max();
    if (!found->is_number_unsigned() || found->get<std::uint64_t>() < least
        || found->get<std::uint64_t>() > largest)
      throw input_error("{}: '{}' should be a whole number from {} to {}, but is {}",
                        where_,
                        key,
                        least,
                        largest,
                        shown(*found));
    return found->get<std::int64_t>();
  }

  double number(const char* key, double otherwise) const {
    const auto* found = find(key);
    if (found != nullptr && !found->is_number())
      throw input_error("{}: '{}' should be a number, but is {}", where_, key, shown(*found));
    return found == nullptr ? otherwise : found->get<double>();
  }

  bool flag(const char* key, bool otherwise) const {
    const auto* found = find(key);
    if (found != nullptr && !found->is_boolean())
      throw input_error("{}: '{}' should be true or false, but is {}", where_, key, shown(*found));
    return found == nullptr ? otherwise : found->get<bool>();
  }

  std::string text(const char* key, const char* otherwise) const {
    const auto* found = find(key);
    if (found != nullptr && !found->is_string())
      throw input_error("{}: '{}' should be a text, but is {}", where_, key, shown(*found));
    return found == nullptr ? otherwise : found->get<std::string>();
  }

  [[noreturn]] void refuse(const char* key, std::string_view supported) const {
    const auto* found = find(key);
    throw input_error(
        "{}: '{}' is {}, which is not supported ({} is); the model cannot be imported",
        where_,
        key,
        found == nullptr ? "missing" : shown(*found),
        supported);
  }

  /// Rejects any other value of the field; it may be absent.
  void require(const char* key, const nlohmann::json& only) const {
    const auto* found = find(key);
    if (found != nullptr && *found != only)
      refuse(key, only.is_null() ? "null" : shown(only));
  }

  std::vector<std::string> keys() const {
    std::vector<std::string> out;
    for (const auto& [key, value] : fields_.items())
      out.push_back(key);
    return out;
  }

  const std::string& where() const { return where_; }

 private:
  nlohmann::json fields_;
  std::string where_;
};

/// The rules of a kind of model of the Hub, for an export.
class hub_rules {
 public:
  void must(bool holds, const char* rule) {
    if (!holds)
      broken_.append("\n  ").append(rule);
  }

  /// Throws input_error with the broken rules, if there are any. `exported`: "This model is
  /// exported as T5".
  void require(const std::string& exported) const {
    if (!broken_.empty())
      throw input_error(
          "no model family of the Hub fits. {}, which needs:{}\nOnly models trained with these "
          "settings can be exported",
          exported,
          broken_);
  }

  /// Throws as `require` does, for a GGUF file of this architecture.
  void require_gguf(const std::string& architecture) const {
    if (!broken_.empty())
      throw input_error(
          "no GGUF file has the model's function. It is written as '{}', which llama.cpp computes "
          "with:{}\nExport it as a folder of Hugging Face",
          architecture,
          broken_);
  }

 private:
  std::string broken_;
};

}  // namespace troupe::runtime
