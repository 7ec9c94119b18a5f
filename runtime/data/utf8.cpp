#include "runtime/data/utf8.hpp"

namespace troupe::runtime {

std::size_t first_invalid_utf8(std::string_view text) {
  const auto byte = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;  // 0: not a continuation
  };
  for (std::size_t i = 0; i < text.size();) {
    const auto first = byte(i);
    if (first < 0x80) {
      ++i;
      continue;
    }
    // The range of the second byte excludes overlong forms and surrogates.
    unsigned low = 0x80, high = 0xbf;
    std::size_t more = 0;
    if (first >= 0xc2 && first <= 0xdf)
      more = 1;
    else if (first >= 0xe0 && first <= 0xef)
      more = 2;
    else if (first >= 0xf0 && first <= 0xf4)
      more = 3;
    else
      return i;
    if (first == 0xe0)
      low = 0xa0;
    if (first == 0xed)
      high = 0x9f;
    if (first == 0xf0)
      low = 0x90;
    if (first == 0xf4)
      high = 0x8f;
    if (byte(i + 1) < low || byte(i + 1) > high)
      return i;
    for (std::size_t k = 2; k <= more; ++k)
      if ((byte(i + k) & 0xc0) != 0x80)
        return i;
    i += more + 1;
  }
  return std::string_view::npos;
}

}  // namespace troupe::runtime
