// The merge loop of BPE within one word (Sennrich et al. 2016, arXiv:1508.07909).

#pragma once

#include "runtime/tokenizer/bpe_vocabulary.hpp"
#include "runtime/tokenizer/subword_model.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace troupe::runtime {

/// Order of the merges. The first two differ only if a merge enables one of lower rank; training
/// never produces such a list.
enum class merge_order {
  rank_by_rank,  ///< GPT-2: all pairs of one rank, left to right, then the next rank
  one_by_one,    ///< Hugging Face: always the leftmost pair of lowest rank
  by_result,     ///< tiktoken: as one_by_one; adjacent merges with equal result share a rank
};

/// Linked list of the pieces of one word, and buffers for merging them.
struct bpe_worker : subword_worker {
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  struct piece {
    std::int32_t id;         ///< -1: merged into the previous piece
    std::uint32_t previous;  ///< `none` at the ends of the word
    std::uint32_t next;
  };
  struct candidate {
    std::uint32_t rank;
    std::uint32_t at;  ///< index of the left piece

    friend bool operator>(const candidate& a, const candidate& b) {
      return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
    }
  };

  std::vector<piece> pieces;
  std::vector<candidate> found;      ///< heap by lowest rank, then leftmost; entries may be stale
  std::vector<std::uint32_t> batch;  ///< candidates of one rank

  void begin() { pieces.clear(); }
  void shed() override {
    free_if_large(pieces);
    free_if_large(found);
    free_if_large(batch);
  }
  /// Throws input_error for more than 4 Gi pieces.
  void add(std::int32_t id);
};

/// Merges the pieces of a word. Thread-safe if each thread uses its own worker.
class bpe_merger {
 public:
  /// No pair of `merges` occurs twice (BPE-1).
  bpe_merger(std::vector<bpe_merge> merges, merge_order order);
  ~bpe_merger();

  /// Merges the worker's n pieces and appends their ids. Takes O(n log n) time.
  void append(std::vector<std::int32_t>& ids, bpe_worker& by) const;

 private:
  struct ranks;

  void propose(std::uint32_t at, bpe_worker& by) const;
  bool stands(std::uint32_t rank, const bpe_worker::piece& left, const bpe_worker& by) const;
  void apply(std::uint32_t rank, std::uint32_t at, bpe_worker& by) const;
  void merge_all(bpe_worker& by) const;

  std::vector<bpe_merge> merges_;
  merge_order order_;
  std::unique_ptr<const ranks> ranks_;
};

/// Byte-level BPE: each word starts as one token per byte.
class byte_bpe : public subword_model {
 public:
  /// `byte_ids`: initial token of each byte. `whole`: words, as bytes, that map directly to a
  /// token.
  byte_bpe(std::vector<bpe_merge> merges,
           const std::array<std::int32_t, 256>& byte_ids,
           merge_order order,
           std::unordered_map<std::string, std::int32_t> whole = {});

  std::unique_ptr<subword_worker> make_worker() const override;
  void append(std::string_view word,
              std::vector<std::int32_t>& ids,
              subword_worker& by) const override;

 private:
  void append_new(std::string_view word, std::vector<std::int32_t>& ids, bpe_worker& by) const;

  bpe_merger merger_;
  std::array<std::int32_t, 256> byte_ids_;
  std::unordered_map<std::string, std::int32_t> whole_;
};

}  // namespace troupe::runtime
