// The unigram language model (Kudo 2018, arXiv:1804.10959): of all ways to cut a word into pieces,
// the most probable.

#pragma once

#include "runtime/tokenizer/subword_model.hpp"
#include "runtime/tokenizer/token_map.hpp"

#include <optional>

namespace troupe::runtime {

struct unigram_settings {
  std::vector<double> scores;           ///< by id: logarithms of probabilities
  std::optional<std::int32_t> unknown;  ///< what characters become that no piece has
  bool byte_fallback = false;           ///< they become the tokens of their bytes, if all have one
};

/// Ids as Hugging Face's tokenizers give them (models::unigram, version 0.23): scores are added in
/// double precision from left to right; of equal ones the one whose last piece begins first counts.
class unigram : public subword_model {
 public:
  /// Throws input_error where there is no piece, a score is no number, or pieces are too many.
  unigram(const std::vector<std::string>& pieces, unigram_settings settings);

  std::unique_ptr<subword_worker> make_worker() const override;
  void append(std::string_view word,
              std::vector<std::int32_t>& ids,
              subword_worker& by) const override;

 private:
  struct node {  ///< of a trie over bytes
    std::uint32_t first_edge = 0;
    std::int32_t id = -1;  ///< of the piece that ends here
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
  std::vector<std::pair<unsigned char, std::uint32_t>> edges_;  ///< byte and node, by node, sorted
};

}  // namespace troupe::runtime
