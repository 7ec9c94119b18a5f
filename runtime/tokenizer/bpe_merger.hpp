// Byte-pair merges inside one word (Sennrich et al. 2016, arXiv:1508.07909).

#pragma once

#include "runtime/tokenizer/bpe_vocabulary.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Which of several possible merges comes first. The two differ only for merges that no training
/// made in their order, where a merge makes one of lower rank possible.
enum class merge_order {
  rank_by_rank,  ///< all of one rank, left to right, before what they make possible: GPT-2's code
  one_by_one,    ///< the lowest rank there is, leftmost, again and again: Hugging Face's, tiktoken
};

/// Room to merge words in, and the ids of words met lately. The cache is direct-mapped: it never
/// grows, and a word only ever displaces the one in its own slot. One thread at a time.
struct bpe_worker {
  static constexpr std::size_t cached_words = 1 << 14;
  static constexpr std::size_t longest_cached = 48;
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  struct piece {
    std::int32_t id;         ///< -1: merged into the piece before
    std::uint32_t previous;  ///< `none` at the ends of the word
    std::uint32_t next;
  };
  struct candidate {
    std::uint32_t rank;
    std::uint32_t at;  ///< the left piece

    friend bool operator>(const candidate& a, const candidate& b) {
      return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
    }
  };
  struct known_word {
    std::string word;
    std::vector<std::int32_t> ids;
  };

  std::vector<piece> pieces;
  std::vector<candidate> found;      ///< heap, lowest rank and then leftmost first; may be stale
  std::vector<std::uint32_t> batch;  ///< candidates of one rank
  std::vector<known_word> known = std::vector<known_word>(cached_words);
};

/// Workers that wait for a caller. Any thread.
class bpe_worker_pool {
 public:
  std::unique_ptr<bpe_worker> take();
  void give_back(std::unique_ptr<bpe_worker> x);

 private:
  std::mutex guard_;
  std::vector<std::unique_ptr<bpe_worker>> idle_;
};

/// Every method may be called from several threads at once, each with its own worker.
class bpe_merger {
 public:
  /// No pair of `merges` occurs twice (BPE-1). `byte_ids`: what each byte of a word begins as.
  bpe_merger(std::vector<bpe_merge> merges,
             const std::array<std::int32_t, 256>& byte_ids,
             merge_order order);
  ~bpe_merger();

  /// Appends the ids of a word: O(n log n) for n bytes. Throws input_error for one of 4 GiB.
  void append(std::string_view word, std::vector<std::int32_t>& ids, bpe_worker& by) const;

 private:
  struct ranks;

  void propose(std::uint32_t at, bpe_worker& by) const;
  void apply(std::uint32_t rank, std::uint32_t at, bpe_worker& by) const;
  void merge_all(bpe_worker& by) const;
  void append_new(std::string_view word, std::vector<std::int32_t>& ids, bpe_worker& by) const;

  std::vector<bpe_merge> merges_;
  std::array<std::int32_t, 256> byte_ids_;
  merge_order order_;
  std::unique_ptr<const ranks> ranks_;
};

}  // namespace troupe::runtime
