// A chunk: layers [first, end) of a model, with the embedding or the head where they belong.
//
// Its program is a list of segments, cut wherever a collective may stand. It knows names and axes,
// not ranks or machines.

#pragma once

#include "runtime/autograd/ops.hpp"
#include "runtime/model/gpt_config.hpp"
#include "runtime/parameters/spec.hpp"

#include <functional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Which part of the model.
struct chunk_range {
  std::int64_t first = 0;  ///< layer
  std::int64_t end = 0;
  bool embedding = false;
  bool head = false;

  friend bool operator==(const chunk_range&, const chunk_range&) = default;
};

/// What one pass of a micro-batch is told from outside.
struct pass_settings {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  ///< keys the dropout
  bool training = true;    ///< dropout on, tape recording
  double loss_scale = 1;   ///< the gradient is that of loss_scale * mean loss
};

/// The state of one micro-batch while the segments run.
struct pass {
  pass_settings settings;
  row_layout rows;
  tensor tokens, labels, mask;  ///< where the chunk has the embedding, the head
  variable hidden;              ///< (B, T, C)
  loss_value loss;
  tensor logits;                                   ///< (B, T, V), when no labels were given
  std::vector<attention_cache>* caches = nullptr;  ///< decoding: one for each layer of the chunk
};

struct segment {
  std::string name;
  int unit = 0;
  std::function<void(tape&, pass&)> forward;
};

class chunk {
 public:
  /// A GPT. Radford et al., 2019; parameter names are Megatron-core's.
  chunk(const gpt_config& config, const chunk_range& range);
  chunk(const chunk&) = delete;  // its segments point into it
  chunk& operator=(const chunk&) = delete;

  const gpt_config& config() const { return config_; }
  const chunk_range& range() const { return range_; }
  const std::vector<unit_spec>& units() const { return units_; }
  const std::vector<segment>& program() const { return program_; }

 private:
  void add_embedding();
  void add_layer(std::int64_t layer);
  void add_attention(int unit, const std::string& layer, std::size_t in_chunk);
  void add_feed_forward(int unit, const std::string& layer);
  void add_head();

  gpt_config config_;
  chunk_range range_;
  std::vector<float> rotary_frequency_;
  std::vector<unit_spec> units_;
  std::vector<segment> program_;
};

/// The layers of each pipeline stage: as even as possible, `stages` ranges.
/// Throws input_error unless stages divides the layers.
std::vector<chunk_range> split_evenly(const gpt_config& config, int stages);

/// One micro-batch on one chunk: forward, then I, then W. Used by one lane; the chunk, the stream
/// and the store outlive it.
class chunk_pass {
 public:
  chunk_pass(const chunk& of, stream& on, parameter_store& store, const pass_settings& how);

  /// In: "positions" (B, T) i32, "samples" (B) u64, and "tokens" (B, T) i32 for the embedding or
  /// "hidden" (B, T, C); for the head "labels" i32 and "mask" f32, both (B, T), unless only logits
  /// are wanted. Out: "hidden" with "positions" and "samples", or "logits" without labels.
  bundle forward(const bundle& in, std::vector<attention_cache>* caches = nullptr);

  /// I. In: "hidden", the gradient of what went out; nothing for the head. Out: "hidden", the
  /// gradient of what came in; nothing for the embedding.
  bundle input_gradients(const bundle& in);

  /// W. Adds to the store and emits every unit.
  void weight_gradients();

  const loss_value& loss() const { return pass_.loss; }

 private:
  const chunk& chunk_;
  tape tape_;
  pass pass_;
  variable input_;
};

}  // namespace troupe::runtime
