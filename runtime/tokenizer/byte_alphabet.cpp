#include "runtime/tokenizer/byte_alphabet.hpp"

namespace troupe::runtime {
namespace {

constexpr unsigned first_moved = 0x100;
constexpr unsigned moved = 68;

struct alphabet {
  std::array<std::uint8_t, 256> by_character = {};
  std::array<std::string, 256> character;             ///< UTF-8, by byte
  std::array<int, first_moved + moved> byte_of = {};  ///< by code point; -1: no byte

  alphabet() {
    byte_of.fill(-1);
    unsigned next = first_moved;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      const unsigned code = printable ? byte : next++;
      byte_of[code] = static_cast<int>(byte);
      if (code >= 0x80)
        character[byte]
            = {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
      else
        character[byte] = {static_cast<char>(code)};
    }
    std::size_t rank = 0;
    for (const int byte : byte_of)
      if (byte >= 0)
        by_character[rank++] = static_cast<std::uint8_t>(byte);
  }
};

const alphabet& the_alphabet() {
  static const alphabet made;
  return made;
}

}  // namespace

const std::array<std::uint8_t, 256>& bytes_by_character() {
  return the_alphabet().by_character;
}

std::string_view character_of(std::uint8_t byte) {
  return the_alphabet().character[byte];
}

std::string to_characters(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (const char byte : bytes)
    out += character_of(static_cast<std::uint8_t>(byte));
  return out;
}

std::optional<std::string> to_bytes(std::string_view characters) {
  const auto& byte_of = the_alphabet().byte_of;
  std::string bytes;
  for (std::size_t at = 0; at < characters.size(); ++at) {
    unsigned code = static_cast<std::uint8_t>(characters[at]);
    if (code >= 0x80) {
      if ((code & 0xE0) != 0xC0 || at + 1 == characters.size())
        return std::nullopt;
      code = ((code & 0x1F) << 6) | (static_cast<std::uint8_t>(characters[++at]) & 0x3F);
    }
    if (code >= byte_of.size() || byte_of[code] < 0)
      return std::nullopt;
    bytes += static_cast<char>(byte_of[code]);
  }
  return bytes;
}

}  // namespace troupe::runtime
