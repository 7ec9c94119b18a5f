// Validation of UTF-8.

#pragma once

#include <cstddef>
#include <string_view>

namespace troupe::runtime {

/// The offset of the first byte that is not well-formed UTF-8 (RFC 3629: no surrogates, no overlong
/// forms, nothing above U+10FFFF), or npos.
std::size_t first_invalid_utf8(std::string_view text);

}  // namespace troupe::runtime
