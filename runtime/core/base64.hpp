// Base64 decoding (RFC 4648, section 4).

#pragma once

#include <string>
#include <string_view>

namespace troupe::runtime {

/// Decodes `text`. Throws input_error for characters outside the alphabet, and for a length that is
/// not a multiple of four.
std::string from_base64(std::string_view text);

}  // namespace troupe::runtime
