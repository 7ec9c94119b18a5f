// Shortens untrusted text for messages.

#pragma once

#include <string>
#include <string_view>

namespace troupe::runtime {

/// The text, or its first `most` bytes and "..." if it is longer. Cuts between UTF-8 characters.
inline std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most)
    return std::string(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80)
    --most;
  return std::string(text.substr(0, most)) + "...";
}

}  // namespace troupe::runtime
