// SentencePiece's table of characters and what they become, as a tokenizer.json has it in base64
// ("precompiled_charsmap"): a double-array trie (Aoe 1989, as the library Darts-clone stores it)
// and the texts that it leads to, each ended by a zero.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

class character_map {
 public:
  /// Four bytes, little-endian: the size of the trie in bytes; the trie; the texts. Throws
  /// input_error for a table that is cut short.
  explicit character_map(std::string_view bytes);

  /// Valid UTF-8, by extended grapheme clusters (Unicode Standard Annex #29): one of fewer than six
  /// bytes that begins with an entry becomes that entry's text; of another each character does.
  /// As Hugging Face's tokenizers do it (normalizers::precompiled, version 0.23).
  std::string apply(std::string_view text) const;

 private:
  std::optional<std::string_view> find(std::string_view text) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace troupe::runtime
