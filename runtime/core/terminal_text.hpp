// Texts that quote what others wrote, as a terminal may show them.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Bytes of a line of a message; of a longer one the beginning and the end are shown.
constexpr std::size_t longest_message_line = 4000;

/// The text without what a terminal obeys: control characters but line ends and tabs, those of
/// Unicode (U+0080 to U+009F) and bytes that are no UTF-8 are written as \x1b.
std::string without_control(std::string_view text);

/// The same, and of a line of more than `longest_message_line` bytes the middle is replaced by how
/// many bytes it had.
std::string message_text(std::string_view text);

}  // namespace troupe::runtime
