// A chunk: layers [first, end) of a model, with the embedding or the head where they belong.
//
// Its program is a list of segments, cut wherever a collective may stand. It knows its place on the
// tensor axis; other axes, ranks of the mesh and machines it does not know.

#pragma once

#include "runtime/model/extension.hpp"
#include "runtime/model/recompute.hpp"

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
  /// A GPT. Radford et al., 2019; parameter names are Megatron-core's. With several tensor ranks:
  /// the part of the one with this seat. With sequence parallelism (Korthikanti et al., 2022) the
  /// rows of the residual stream are sharded over them. Throws input_error when the extension has
  /// no name.
  chunk(const gpt_config& config,
        const chunk_range& range,
        tensor_seat seat = {},
        bool sequence_parallel = false,
        extension own = {});
  chunk(const chunk&) = delete;  // its segments point into it
  chunk& operator=(const chunk&) = delete;

  const gpt_config& config() const { return config_; }
  const chunk_range& range() const { return range_; }
  tensor_seat seat() const { return seat_; }
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
  tensor_seat seat_;
  bool sequence_parallel_;
  std::vector<float> rotary_frequency_;
  extension own_;
  std::vector<unit_spec> units_;
  std::vector<segment> program_;
};

/// The layers of each pipeline stage, as many for each. Throws input_error unless `stages` divides
/// the layers; see stages.hpp for those that are not even.
std::vector<chunk_range> split_evenly(const gpt_config& config, int stages);

/// Segments [first, end) of which the tape keeps nothing but their inputs: they run again.
struct recompute_group {
  int first = 0, end = 0;
};

/// What one action of the backward pass works on: segments [first, end).
struct backward_block {
  int first = 0, end = 0;
  bool recomputed = false;  ///< it ends with a recompute group: R comes before its I
};

/// What of a chunk is computed again. Every group of layers, or module of one, that is recomputed
/// together ends a block of its own, so that only one is in memory whole.
struct recompute_plan {
  recompute_plan(const chunk& of, const recompute_settings& settings);

  std::vector<recompute_group> groups;  ///< ascending
  std::vector<backward_block> blocks;   ///< ascending, at least one; backward descends
};

/// One micro-batch on one chunk: forward, then for each block, the last first, R where it is
/// recomputed, I and W. Used by one lane; chunk, plan, stream, store and axis outlive it. Broken
/// promise CHUNK-1 unless the axis is that of the chunk's seat.
class chunk_pass {
 public:
  chunk_pass(const chunk& of,
             const recompute_plan& plan,
             stream& stream,
             parameter_store& store,
             const pass_settings& settings,
             communicator* tensor_axis = nullptr);

  /// In: "positions" (B, T) i32, "samples" (B) u64, and "tokens" (B, T) i32 for the embedding or
  /// "hidden" (B, T, C), this rank's rows of it where they are sharded; for the head "labels" i32
  /// and "mask" f32, both (B, T), unless only logits are wanted. Out: "hidden" with "positions" and
  /// "samples", or "logits" without labels.
  bundle forward(const bundle& in, std::vector<attention_cache>* caches = nullptr);

  /// R: runs the recompute group of the block again. Once, before its I.
  void recompute(int block);

  /// I. In: for the last block "hidden", the gradient of what went out; nothing for the head. Out:
  /// for the first block "hidden", the gradient of what came in; nothing for the embedding.
  bundle input_gradients(const bundle& in, int block);

  /// W. Adds to the store and emits every unit that is complete.
  void weight_gradients(int block);

  /// I and W of a block of a chunk that has embedding and head, and so waits for nobody and is
  /// waited for by nobody: segment by segment, so that what they need is not held until the block's
  /// I has ended. The same bits.
  void backward(int block);

  int blocks() const { return int(plan_.blocks.size()); }
  /// (2) f64, see loss_value.
  const tensor& loss_sums() const { return pass_.loss; }
  /// Waits until the stream has come so far.
  loss_value loss() { return loss_of(tape_.stream(), pass_.loss); }

 private:
  /// The inputs of a recompute group, and the slots that it gave its results.
  struct group_input {
    variable hidden, x;
    std::shared_ptr<gradient_slot> hidden_slot, x_slot;
  };

  void begin_rows(const bundle& in, bool decoding);
  void run(int first, int end);
  void run_unrecorded(const recompute_group& which);

  const chunk& chunk_;
  const recompute_plan& plan_;
  tape tape_;
  pass pass_;
  variable input_;
  std::shared_ptr<gradient_slot> output_;  ///< where the gradient of what went out comes back
  std::vector<group_input> group_inputs_;  ///< of each recompute group
};

}  // namespace troupe::runtime
