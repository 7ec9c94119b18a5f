// SentencePiece's character table: maps characters to texts. A tokenizer.json stores it in base64
// as "precompiled_charsmap". It is a double-array trie (Aoe 1989, in the layout of Darts-clone),
// followed by the zero-terminated texts.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

class character_map {
 public:
  /// Layout of `bytes`: size of the trie in bytes (4 bytes, little-endian), the trie, the texts.
  /// Throws input_error if the table is truncated.
  explicit character_map(std::string_view bytes);

  /// Maps valid UTF-8 by extended grapheme clusters (Unicode Standard Annex #29). A cluster below
  /// six bytes that starts with an entry becomes that entry's text. In other clusters each
  /// character is mapped by itself. Follows Hugging Face's tokenizers (normalizers::precompiled,
  /// version 0.23).
  std::string apply(std::string_view text) const;

 private:
  std::optional<std::string_view> find(std::string_view text) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace troupe::runtime
