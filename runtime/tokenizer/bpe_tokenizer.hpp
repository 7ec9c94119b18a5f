// GPT-2's byte-level BPE tokenizer, from vocab.json and merges.txt.

#pragma once

#include "runtime/tokenizer/bpe_merger.hpp"
#include "runtime/tokenizer/bpe_vocabulary.hpp"
#include "runtime/tokenizer/pre_tokenizer.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

namespace troupe::runtime {

/// Fingerprint of a tokenizer that splits and merges as GPT-2 does.
digest fingerprint_of(const bpe_vocabulary& vocabulary);

/// GPT-2's byte-level BPE (Radford et al. 2019; Sennrich et al. 2016, arXiv:1508.07909). It splits
/// the text into words (pre_tokenizer.hpp) and each word into bytes. Then it repeats the merge of
/// lowest rank, at all its occurrences from left to right.
///
/// Encodes any bytes; decoding restores them. Bytes that are not valid UTF-8 are encoded one by
/// one. A word of n bytes takes O(n log n) time.
class bpe_tokenizer : public tokenizer {
 public:
  static constexpr const char* type_name = "GPT2BPETokenizer";

  explicit bpe_tokenizer(bpe_vocabulary vocabulary);

  void append(std::string_view text,
              std::vector<std::int32_t>& ids,
              special_tokens specials = special_tokens::as_text) const override;

  /// Decodes the end-of-document token to "<|endoftext|>".
  std::string decode(std::span<const std::int32_t> ids) const override;

  std::int32_t vocabulary_size() const override;
  std::int32_t end_of_document() const override { return vocabulary_.end_of_document; }
  std::string kind() const override { return type_name; }
  digest fingerprint() const override { return fingerprint_; }

  const bpe_vocabulary& vocabulary() const { return vocabulary_; }

  /// Writes vocab.json and merges.txt into the folder (save_bpe_vocabulary).
  void save(const std::filesystem::path& folder) const;

 private:
  void append_words(std::string_view text,
                    std::vector<std::int32_t>& ids,
                    subword_worker& by) const;

  bpe_vocabulary vocabulary_;
  std::vector<std::string> bytes_;  ///< by id: decoded bytes
  digest fingerprint_;
  pre_tokenizer cut_;
  byte_bpe model_;
  mutable worker_pool workers_;
};

}  // namespace troupe::runtime
