// Reads JSON texts of a hub, which another service or another version may have made.

#pragma once

#include "runtime/core/json_text.hpp"

#include <string>
#include <string_view>

namespace troupe::runtime {

/// The parsed text. Discarded if the text is not JSON, or nested too deep for a recursive walk.
inline nlohmann::json shallow_value(std::string_view text) {
  constexpr int deepest = 64;
  return json_depth(text) > deepest ? nlohmann::json(nlohmann::json::value_t::discarded)
                                    : json_value_or_discarded(text);
}

/// A text in an object; empty if it is missing or of another type, or if `in` is not an object.
inline std::string text_member(const nlohmann::json& in, const char* name) {
  const auto found = in.is_object() ? in.find(name) : in.end();
  return found != in.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace troupe::runtime
