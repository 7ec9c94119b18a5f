// Severities of the log by name.

#pragma once

#include "runtime/core/log.hpp"
#include "runtime/core/names.hpp"

#include <optional>
#include <string_view>

namespace troupe::runtime {

/// In the order of `severity`.
inline constexpr std::string_view severity_names[] = {"debug", "info", "warning", "error"};

/// Empty for another name.
inline std::optional<severity> severity_named(std::string_view name) {
  return value_named<severity>(severity_names, name);
}

}  // namespace troupe::runtime
