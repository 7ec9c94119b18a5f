// The 256 printable characters that stand for the 256 bytes in vocab.json and merges.txt.
//
// GPT-2's rule: the bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF stand for the characters of the same
// number; the other 68 bytes, in ascending order, for U+0100 ... U+0143. The space is thus U+0120.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// The bytes in ascending order of their characters: the order of ids 0 ... 255 in GPT-2.
const std::array<std::uint8_t, 256>& bytes_by_character();

/// The character of a byte, as UTF-8.
std::string_view character_of(std::uint8_t byte);

/// Those of all bytes of a text.
std::string to_characters(std::string_view bytes);

/// The inverse; nothing when some character stands for no byte, e.g. in a special token "a b".
std::optional<std::string> to_bytes(std::string_view characters);

}  // namespace troupe::runtime
