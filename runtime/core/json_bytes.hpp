// Paths and names may be any bytes, and JSON is UTF-8.

#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace troupe::runtime {

/// The text; one that is not UTF-8 as {"bytes": hexadecimal}.
nlohmann::json text_or_bytes(const std::string& x);

/// The same again; nothing: it is neither.
std::optional<std::string> from_text_or_bytes(const nlohmann::json& x);

}  // namespace troupe::runtime
