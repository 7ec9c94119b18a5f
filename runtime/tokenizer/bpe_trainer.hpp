// Learns a byte-level BPE vocabulary from text (Sennrich et al. 2016, arXiv:1508.07909).

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
  std::int32_t vocabulary_size = 0;  ///< 256 bytes + merges + 1 for "<|endoftext|>": 257 or more
  std::uint64_t minimum_count = 2;   ///< a rarer pair is not merged

  /// Told (tokens so far, vocabulary_size) after each merge, on the thread that trains.
  std::function<void(std::uint64_t, std::uint64_t)> progress = {};
};

/// Counts words, then merges. The counts of the words decide everything: their order does not, as
/// long as none was dropped. One thread uses it.
///
/// BPE-ORDER: each merge is that of the pair with the highest count; of equal ones, that with the
/// smallest left id; of those, that with the smallest right id.
///
/// BPE-UNIQUE: no token comes about by two merges. Between two cuts that both still stand, merging
/// went as if nothing stood outside, so equal stretches were merged at the same time.
class bpe_trainer {
 public:
  /// No more than `maximum_words` distinct words, nor 16 bytes for each of them, are kept. Beyond
  /// that, words seen once are dropped, then those seen twice, and so on, until half remain.
  explicit bpe_trainer(std::size_t maximum_words = 2'000'000);

  /// Counts the words of one document; no word spans two calls.
  void add(std::string_view document);

  std::size_t distinct_words() const { return counts_.size(); }

  /// Ids: the bytes in the order of their characters (byte_alphabet.hpp), the merges in theirs,
  /// "<|endoftext|>" last. Where the words have no pair left that is frequent enough, the
  /// vocabulary is smaller than asked. Throws input_error for a size below 257.
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
  std::size_t bytes_ = 0;  ///< of all keys of counts_
};

}  // namespace troupe::runtime
