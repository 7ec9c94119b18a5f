// The 256 printable characters that represent the 256 bytes in vocab.json and merges.txt.
//
// GPT-2's rule: bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF map to the character of the same number.
// The other 68 bytes map, in ascending order, to U+0100 ... U+0143. The space is thus U+0120.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// The bytes in ascending order of their characters, which is the order of ids 0 ... 255 in GPT-2.
const std::array<std::uint8_t, 256>& bytes_by_character();

/// Returns the character of a byte as UTF-8.
std::string_view character_of(std::uint8_t byte);

/// Replaces each byte by its character.
std::string to_characters(std::string_view bytes);

/// Inverse of to_characters. Returns nothing if some character represents no byte, as in a special
/// token "a b".
std::optional<std::string> to_bytes(std::string_view characters);

}  // namespace troupe::runtime
