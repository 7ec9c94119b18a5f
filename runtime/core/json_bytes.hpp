// JSON encoding of paths and names, which may contain bytes that are not UTF-8.

#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace troupe::runtime {

/// A JSON string, or {"bytes": hexadecimal} if `x` is not UTF-8.
nlohmann::json text_or_bytes(const std::string& x);

/// The inverse; nothing if `x` has neither form.
std::optional<std::string> from_text_or_bytes(const nlohmann::json& x);

}  // namespace troupe::runtime
