// JSON values and their texts. nlohmann's reader and writer are templates that take a compiler
// seconds: here they are compiled once, for all sources that read or write JSON.

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// The value of a text, whatever its length and depth: runtime/checkpoint/json.hpp has limits.
/// Throws nlohmann::json::exception.
nlohmann::json json_value(std::string_view text);
nlohmann::ordered_json ordered_json_value(std::string_view text);

/// The same, calling `keep` for each element as nlohmann::json::parse does; what it throws passes.
nlohmann::json json_value(std::string_view text, const nlohmann::json::parser_callback_t& keep);

/// A value whose is_discarded() holds where the text is not JSON.
nlohmann::json json_value_or_discarded(std::string_view text);

/// A whole number that fits, and nothing for any other value. nlohmann's own conversion takes 2.5
/// as 2, true as 1, and is undefined for 1e300.
std::optional<std::int64_t> whole_number_in(const nlohmann::json& value);

/// What is wrong with a text, for a message: where, and what was expected. At most 300 bytes.
std::string json_complaint(const nlohmann::json::exception& failure);

/// The text of a value: in one line (indent -1), or indented by so many spaces a level. Throws
/// nlohmann::json::type_error for a string that is not UTF-8.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

/// How deep brackets stand in brackets, those within strings apart. What walks over a value calls
/// itself: who reads what a stranger wrote looks at this first.
int json_depth(std::string_view text);

enum class json_characters { utf8, ascii };

/// The same for strings that may be anything: what is not UTF-8 becomes U+FFFD. ascii: characters
/// beyond ASCII are escaped.
std::string json_text_replacing(const nlohmann::json& value,
                                int indent = -1,
                                json_characters characters = json_characters::utf8);
std::string json_text_replacing(const nlohmann::ordered_json& value,
                                int indent = -1,
                                json_characters characters = json_characters::utf8);

}  // namespace troupe::runtime
