// Decodes tokens: the logits after growing sequences, with or without a cache.

#pragma once

#include "runtime/model/choice_texts.hpp"
#include "runtime/model/chunk_pass.hpp"
#include "runtime/parameters/store.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The streams of a model besides that of its head, such as "encoder". They are given before text
/// is generated.
std::vector<std::string> given_streams(const model_spec& model);

/// Computes the next token's logits for growing sequences. One thread. The constructor's arguments
/// must outlive it.
class decoder {
 public:
  /// `sequences` sequences of at most `capacity` tokens each. Without `cached` there is no KV
  /// cache: slower, with the same logits.
  decoder(const chunk& whole,
          parameter_store& store,
          stream& stream,
          std::int64_t capacity,
          bool cached,
          std::size_t sequences = 1);

  /// Computes the given streams of all sequences once; later calls of `advance` read them. Call it
  /// first (DECODE-3). `inputs`: the tensors (1, rows, ..) of a batch that their units read,
  /// without "samples" and borders. Sequence b has the rows from first[b] up to first[b + 1].
  void read(const bundle& inputs, std::vector<std::int32_t> first);

  /// Sequence i then continues what is sequence sources[i] now. There may be more sequences than
  /// before; if there are as many, i and sources[i] must have the same given streams.
  void select(std::span<const std::size_t> sources);

  std::size_t sequences() const { return filled_.size(); }

  /// Later calls of `advance` keep the choices of experts.
  void keep_choices() { keeps_choices_ = true; }

  /// Appends one or more tokens to each sequence. Returns the logits (sequences, padded vocabulary)
  /// after the last token of each, valid until the next call.
  std::span<const float> advance(std::span<const std::vector<std::int32_t>> tokens);

  /// Writes the kept choices for the tokens that the last call appended to a sequence.
  void record(std::size_t sequence, std::uint64_t text, choice_text_writer& to) const;

 private:
  void make_caches();
  bundle borders();
  void pick_given(std::span<const std::size_t> sources);
  bool is_given(const std::string& stream) const {
    return std::find(names_.begin(), names_.end(), stream) != names_.end();
  }
  bundle input(std::span<const std::vector<std::int32_t>> tokens);
  void keep_last(const tensor& logits, std::span<const std::vector<std::int32_t>> tokens);

  const chunk& chunk_;
  recompute_plan plan_;
  parameter_store& store_;
  stream& stream_;
  std::int64_t capacity_;
  bool cached_;
  std::vector<std::vector<std::int32_t>> so_far_;  ///< all tokens of each sequence, without caches
  std::vector<std::int64_t> filled_;               ///< tokens of each sequence in the caches
  std::vector<attention_cache> caches_;            ///< see chunk::caches
  std::vector<std::string> names_;                 ///< the streams of `read`
  std::vector<std::int32_t> first_;                ///< rows of the given streams
  bundle given_;                                   ///< these, and the tensors of their rows
  std::vector<float> logits_;                      ///< after the last token of each sequence
  bool keeps_choices_ = false;
  // Results of the last call:
  std::vector<recorded_choice> choices_;
  std::vector<std::int64_t> appended_;  ///< tokens of each sequence
};

}  // namespace troupe::runtime
