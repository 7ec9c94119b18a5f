// Parses and prints JSON. Instantiates nlohmann's slow-to-compile templates once for all sources.

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Parses a text of any length and depth; runtime/core/json_reader.hpp adds limits. Throws
/// nlohmann::json::exception.
nlohmann::json json_value(std::string_view text);
nlohmann::ordered_json ordered_json_value(std::string_view text);

/// Parses with nlohmann's callback `keep`, called for each element. Exceptions of `keep` pass
/// through.
nlohmann::json json_value(std::string_view text, const nlohmann::json::parser_callback_t& keep);

/// Parses a record that Python's json module may have written: NaN, Infinity, -Infinity and numbers
/// that no double holds become null.
nlohmann::json json_value_of_record(std::string_view text);
nlohmann::ordered_json ordered_json_value_of_record(std::string_view text);

/// Parses without exceptions: is_discarded() holds for the result if the text is not JSON.
nlohmann::json json_value_or_discarded(std::string_view text);

/// The value if it is an integer that fits; nothing otherwise. nlohmann's own conversion turns 2.5
/// into 2 and true into 1, and is undefined for 1e300.
std::optional<std::int64_t> whole_number_in(const nlohmann::json& value);

/// The parse error for a message: its position and what was expected. At most 300 bytes.
std::string json_complaint(const nlohmann::json::exception& failure);

/// Prints a value on one line (indent -1), or with `indent` spaces per level. Throws
/// nlohmann::json::type_error for a string that is not UTF-8.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

/// Nesting depth of brackets, ignoring brackets in strings. Check it before walking a value of
/// untrusted origin, because the walk is recursive.
int json_depth(std::string_view text);

enum class json_characters { utf8, ascii };

/// Like json_text, but replaces invalid UTF-8 with U+FFFD. `ascii` escapes characters beyond ASCII.
std::string json_text_replacing(const nlohmann::json& value,
                                int indent = -1,
                                json_characters characters = json_characters::utf8);
std::string json_text_replacing(const nlohmann::ordered_json& value,
                                int indent = -1,
                                json_characters characters = json_characters::utf8);

}  // namespace troupe::runtime
