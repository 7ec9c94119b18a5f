// Trains a byte-level BPE vocabulary (Sennrich et al. 2016, arXiv:1508.07909).

#pragma once

#include "runtime/tokenizer/bpe_vocabulary.hpp"
#include "runtime/tokenizer/pre_tokenizer.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace troupe::runtime {

struct bpe_training {
  std::int32_t vocabulary_size = 0;  ///< bytes + merges + "<|endoftext|>"; at least 257
  std::uint64_t minimum_count = 2;   ///< minimum count of a merged pair

  /// Called as (tokens so far, vocabulary_size) after each merge, on the training thread.
  std::function<void(std::uint64_t, std::uint64_t)> progress = {};
};

/// Counts words, then trains merges. The result depends only on the word counts, not on the order
/// of documents, unless rare words were dropped. Not thread-safe.
///
/// BPE-ORDER: each merge takes the pair with the highest count. Ties go to the smallest left id,
/// then to the smallest right id.
///
/// BPE-UNIQUE: two different merges never produce the same token. Equal stretches between two
/// remaining token boundaries are merged at the same time.
class bpe_trainer {
 public:
  /// Keeps at most `maximum_words` distinct words and 16 bytes for each. Beyond that it drops words
  /// seen once, then twice, and so on, until half remain.
  explicit bpe_trainer(std::size_t maximum_words = 2'000'000);

  /// Counts the words of one document. A word never spans two calls.
  void add(std::string_view document);

  std::size_t distinct_words() const { return counts_.size(); }

  /// Assigns ids to the bytes in the order of their characters (byte_alphabet.hpp), then to the
  /// merges, then to "<|endoftext|>". The vocabulary is smaller than requested if no frequent pair
  /// remains. Throws input_error for a size below 257.
  bpe_vocabulary train(const bpe_training& settings) const;

 private:
  struct word_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const;
  };

  void drop_rare();

  pre_tokenizer cut_;
  std::size_t maximum_words_;
  std::unordered_map<std::string, std::uint64_t, word_hash, std::equal_to<>> counts_;
  std::size_t bytes_ = 0;  ///< total size of the keys of counts_
};

}  // namespace troupe::runtime
