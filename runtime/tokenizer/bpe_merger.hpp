// Byte-pair merges inside one word (Sennrich et al. 2016, arXiv:1508.07909).

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

/// Which of several possible merges comes first. The first two differ only for merges that no
/// training made in their order, where a merge makes one of lower rank possible.
enum class merge_order {
  rank_by_rank,  ///< all of one rank, left to right, before what they make possible: GPT-2's code
  one_by_one,    ///< the lowest rank there is, leftmost, again and again: Hugging Face's
  by_result,  ///< as one_by_one; neighbours in the list that make the same have one rank: tiktoken
};

/// Pieces of one word while they are merged.
struct bpe_worker : subword_worker {
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

  std::vector<piece> pieces;
  std::vector<candidate> found;      ///< heap, lowest rank and then leftmost first; may be stale
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

/// Every method may be called from several threads at once, each with its own worker.
class bpe_merger {
 public:
  /// No pair of `merges` occurs twice (BPE-1).
  bpe_merger(std::vector<bpe_merge> merges, merge_order order);
  ~bpe_merger();

  /// Merges the pieces of the worker and appends their ids: O(n log n) for n of them.
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

/// A BPE whose words begin as bytes.
class byte_bpe : public subword_model {
 public:
  /// `byte_ids`: what each byte begins as. `whole`: words, in bytes, that are a token at once.
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
