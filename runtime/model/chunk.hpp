// A chunk: layers [first, end) of a model, with the embedding or the head where they belong.
//
// Its program is a list of segments, cut wherever a collective may stand. It knows its places on
// the axes of the model; ranks of the mesh and machines it does not know.

#pragma once

#include "runtime/model/extension.hpp"

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
  variable hidden;              ///< (B, T, C), replicated; (B T / TP, C) where rows are sharded
  variable x;                   ///< what one segment of a layer hands to the next
  tensor loss;                  ///< (2) f64, see loss_value; with labels
  tensor rotary_frequency;      ///< (rotated / 2) f32, where there are some
  tensor logits;                ///< (B, T, V / TP), when no labels were given
  std::vector<attention_cache>* caches = nullptr;  ///< decoding: one for each layer of the chunk
};

/// Which module of a layer a segment belongs to, for selective recomputation.
enum class module_kind : std::uint8_t { other, core_attention, feed_forward };

struct segment {
  std::string name;
  int unit = 0;
  std::int64_t layer = -1;  ///< -1: embedding or head
  module_kind module = module_kind::other;
  std::function<void(tape&, pass&)> forward;
};

class chunk {
 public:
  /// A GPT. Radford et al., 2019; parameter names are Megatron-core's. Of what axes cut, the
  /// part of the rank with these seats. With sequence parallelism (Korthikanti et al., 2022) the
  /// rows of the residual stream are sharded over them. Throws input_error when the extension has
  /// no name.
  chunk(const gpt_config& config,
        const chunk_range& range,
        const axis_seats& seats = {},
        bool sequence_parallel = false,
        extension own = {});
  chunk(const chunk&) = delete;  // its segments point into it
  chunk& operator=(const chunk&) = delete;

  const gpt_config& config() const { return config_; }
  const chunk_range& range() const { return range_; }
  const axis_seats& seats() const { return seats_; }
  int tensor_ranks() const { return seats_[axis::tensor].size; }
  bool sequence_parallel() const { return sequence_parallel_; }
  const std::vector<unit_spec>& units() const { return units_; }
  const std::vector<segment>& program() const { return program_; }
  /// Radians a position, of each rotated pair of channels; empty: no rotation.
  const std::vector<float>& rotary_frequency() const { return rotary_frequency_; }

 private:
  void add_embedding();
  void add_layer(std::int64_t layer);
  void add_attention(int unit, std::int64_t layer);
  void add_core_attention(int unit, std::int64_t layer, const std::string& name);
  void add_feed_forward(int unit, std::int64_t layer);
  void add_own_feed_forward(int unit, std::int64_t layer);
  void add_head();
  void add_segment(std::string name,
                   int unit,
                   std::int64_t layer,
                   module_kind module,
                   std::function<void(tape&, pass&)> forward);
  attention_options attention_shape() const;  ///< without the frequencies, which lie with the pass
  variable residual(tape& tape, pass& p, double rate, const std::string& dropout, int bias) const;

  gpt_config config_;
  chunk_range range_;
  axis_seats seats_;
  bool sequence_parallel_;
  std::vector<float> rotary_frequency_;
  extension own_;
  std::vector<unit_spec> units_;
  std::vector<segment> program_;
};

/// The layers of each pipeline stage, as many for each. Throws input_error unless `stages` divides
/// the layers; see stages.hpp for those that are not even.
std::vector<chunk_range> split_evenly(const gpt_config& config, int stages);

}  // namespace troupe::runtime
