// Makes quoted text safe to print on a terminal.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Maximum length in bytes of a line in a message; the middle of longer lines is left out.
constexpr std::size_t longest_message_line = 4000;

/// Escapes control characters except newline and tab, C1 controls (U+0080 to U+009F) and invalid
/// UTF-8 as \x1b.
std::string without_control(std::string_view text);

/// Like without_control. Also replaces the middle of each line longer than `longest_message_line`
/// with its size in bytes.
std::string message_text(std::string_view text);

}  // namespace troupe::runtime
