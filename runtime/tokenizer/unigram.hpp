// The unigram language model (Kudo 2018, arXiv:1804.10959): finds the most probable segmentation of
// a word into pieces.

#pragma once

#include "runtime/tokenizer/subword_model.hpp"
#include "runtime/tokenizer/token_map.hpp"

#include <optional>

namespace troupe::runtime {

struct unigram_settings {
  std::vector<double> scores;           ///< by id: log probabilities
  std::optional<std::int32_t> unknown;  ///< token of characters that no piece has
  bool byte_fallback
      = false;  ///< unknown characters become byte tokens, if all their bytes have one
};

/// Ids equal those of Hugging Face's tokenizers (models::unigram, version 0.23). Scores are added
/// in double precision from left to right. A tie goes to the segmentation with the longest last
/// piece.
class unigram : public subword_model {
 public:
  /// Throws input_error if there are no pieces or too many, or a score is not finite.
  unigram(const std::vector<std::string>& pieces, unigram_settings settings);

  std::unique_ptr<subword_worker> make_worker() const override;
  void append(std::string_view word,
              std::vector<std::int32_t>& ids,
              subword_worker& by) const override;

 private:
  struct node {  ///< node of a trie over bytes
    std::uint32_t first_edge = 0;
    std::int32_t id = -1;  ///< id of the piece that ends here
    std::uint16_t edges = 0;
  };
  struct worker;

  void make_trie(const std::vector<std::string>& pieces);
  const node* step(const node& from, unsigned char byte) const;
  void find_best(std::string_view word, worker& by) const;
  void append_new(std::string_view word, std::vector<std::int32_t>& ids, worker& by) const;
  void append_unknown(std::string_view text, std::vector<std::int32_t>& ids) const;

  unigram_settings settings_;
  token_map tokens_;
  byte_tokens bytes_;
  double unknown_score_ = 0;
  std::vector<node> nodes_;
  std::vector<std::pair<unsigned char, std::uint32_t>>
      edges_;  ///< (byte, child node), grouped by parent, sorted by byte
};

}  // namespace troupe::runtime
