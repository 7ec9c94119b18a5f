// A BPE whose words begin as characters: SentencePiece's, as a tokenizer.json has it, and CLIP's.

#pragma once

#include "runtime/tokenizer/bpe_merger.hpp"
#include "runtime/tokenizer/token_map.hpp"

#include <optional>

namespace troupe::runtime {

struct piece_bpe_settings {
  std::optional<std::int32_t> unknown = {};  ///< what a character becomes that no token has
  bool fuse_unknown = false;                 ///< several in a row become one
  bool byte_fallback = false;  ///< it becomes the tokens of its bytes where they are there
  std::string prefix;          ///< of each character but the first: "##"
  std::string suffix;          ///< of the last one: "</w>"
  bool whole_words = false;    ///< a word that is a token is not merged
};

/// Ids as Hugging Face's tokenizers give them (models::bpe, version 0.23). A character that no
/// token has, in a model without one for it, is left out.
class piece_bpe : public subword_model {
 public:
  /// `tokens`: characters, with prefix and suffix, and what merges make of them.
  piece_bpe(std::vector<bpe_merge> merges, token_map tokens, piece_bpe_settings settings);

  std::unique_ptr<subword_worker> make_worker() const override;
  void append(std::string_view word,
              std::vector<std::int32_t>& ids,
              subword_worker& by) const override;

 private:
  bool is_cut_at_spaces() const;
  std::optional<std::int32_t> token_of(std::string_view character, bool first, bool last) const;
  void append_new(std::string_view word, std::vector<std::int32_t>& ids, bpe_worker& by) const;

  token_map tokens_;
  piece_bpe_settings settings_;
  byte_tokens bytes_;
  std::vector<std::int32_t>
      ascii_;  ///< by character: its token; -1: none. Empty with prefix, suffix
  bool cut_at_spaces_;
  bpe_merger merger_;
};

}  // namespace troupe::runtime
