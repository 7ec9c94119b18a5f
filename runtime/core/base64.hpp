// Bytes as text by RFC 4648, section 4.

#pragma once

#include <string>
#include <string_view>

namespace troupe::runtime {

/// The bytes that `text` says. Throws input_error for other characters and for a length that is no
/// multiple of four.
std::string from_base64(std::string_view text);

}  // namespace troupe::runtime
