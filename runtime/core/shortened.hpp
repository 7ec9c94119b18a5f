// What a stranger wrote, in a message: as much of it as a reader wants to see.

#pragma once

#include <string>
#include <string_view>

namespace troupe::runtime {

/// The text, or its first `most` bytes and "...", where it has more; never a part of a character.
inline std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most)
    return std::string(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80)
    --most;
  return std::string(text.substr(0, most)) + "...";
}

}  // namespace troupe::runtime
