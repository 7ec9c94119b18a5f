// Character-level BPE: SentencePiece's, as stored in a tokenizer.json, and CLIP's.

#pragma once

#include "runtime/tokenizer/bpe_merger.hpp"
#include "runtime/tokenizer/token_map.hpp"

#include <optional>

namespace troupe::runtime {

struct piece_bpe_settings {
  std::optional<std::int32_t> unknown = {};  ///< token of characters that are not in the vocabulary
  bool fuse_unknown = false;                 ///< adjacent unknown characters become one token
  bool byte_fallback
      = false;               ///< unknown characters become byte tokens, if all their bytes have one
  std::string prefix;        ///< before each character except the first: "##"
  std::string suffix;        ///< after the last character: "</w>"
  bool whole_words = false;  ///< words that are tokens skip the merges
};

/// Ids equal those of Hugging Face's tokenizers (models::bpe, version 0.23). Without an unknown
/// token, characters that are not in the vocabulary are dropped.
class piece_bpe : public subword_model {
 public:
  /// `tokens`: characters with prefix and suffix, and all results of merges.
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
      ascii_;  ///< by ASCII character: its token or -1; empty with prefix or suffix
  bool cut_at_spaces_;
  bpe_merger merger_;
};

}  // namespace troupe::runtime
