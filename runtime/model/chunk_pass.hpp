// Runs one micro-batch through one chunk: forward pass, then backward pass by blocks.

#pragma once

#include "runtime/model/recompute_plan.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace troupe::runtime {

/// Call `forward` first. Then call, for each block from last to first: R if it is recomputed, I and
/// W. One lane uses the object; chunk, plan, stream, store and groups must outlive it. Breaks
/// CHUNK-1 if a group along an axis of the model differs from that of the chunk.
class chunk_pass {
 public:
  chunk_pass(const chunk& of,
             const recompute_plan& plan,
             stream& stream,
             parameter_store& store,
             const pass_settings& settings,
             const axis_map<communicator*>& groups = {});

  /// Input:
  ///
  ///   * "positions" (B, T) i32 and "samples" (B) u64;
  ///   * "tokens" (B, T) i32 for the embedding, else "hidden" (B, T, C), or this rank's rows of it
  ///     if they are sharded;
  ///   * for the head "labels" i32 and "mask" f32, both (B, T), unless only logits are wanted;
  ///   * "documents" (D + 1) i32 and "document_samples" (D) u64, if attention ends at document
  ///     boundaries (micro_batch.hpp).
  ///
  /// Output: "hidden" with "positions" and "samples" (and the documents), or "logits" if the head
  /// gets no labels.
  bundle forward(const bundle& in, std::vector<attention_cache>* caches = nullptr);

  /// `then` is called with a unit's number once this pass has read its parameters for the last
  /// time. It is called for the embedding and the head only: after `forward` for an embedding
  /// without a tied head in this chunk, otherwise after all I of the head. The parameters of other
  /// units are in use until `emit`.
  void on_read(std::function<void(int unit)> then) { read_ = std::move(then); }

  /// R: recomputes the block's group. Call it once, before the block's I.
  void recompute(int block);

  /// I. Input of the last block: "hidden", the gradient of the chunk's output; nothing for the
  /// head. Output of the first block: "hidden", the gradient of the chunk's input; nothing for the
  /// embedding.
  bundle input_gradients(const bundle& in, int block);

  /// W. Adds gradients to the store and emits every complete unit.
  void weight_gradients(int block);

  /// I and W of a block, for a chunk with both embedding and head, which exchanges nothing with
  /// other stages. Runs I and W segment by segment to free memory early. Exception: with `on_read`,
  /// all I of the head run before its W. The norm's I reads the head's parameters last, and the
  /// output layer's weight gradient is the largest. Same bits either way.
  void backward(int block);

  int blocks() const { return int(plan_.blocks.size()); }
  /// (2) f64, see loss_value.
  const tensor& loss_sums() const { return pass_.loss; }
  /// Waits for the stream.
  loss_value loss() { return loss_of(tape_.stream(), pass_.loss); }

 private:
  void go_on() const;  ///< throws `cancelled` if the generation has ended

  /// Inputs of a recompute group, and the gradient slots of its results.
  struct group_input {
    variable hidden, x;
    std::shared_ptr<gradient_slot> hidden_slot, x_slot;
  };

  void begin_rows(const bundle& in, bool decoding);
  bool begins_unit(int s) const;
  bool is_of_head(int s) const;
  void note_forward(int s) const;
  void note_input_gradients(int s) const;
  bool next_adds(int s) const;  ///< segment s may leave its sum to the next segment
  void run(int first, int end);
  void run_unrecorded(const recompute_group& which);

  std::function<void(int)> read_;
  const chunk& chunk_;
  const recompute_plan& plan_;
  tape tape_;
  pass pass_;
  variable input_;
  std::shared_ptr<gradient_slot> output_;  ///< gradient of the chunk's output
  std::vector<group_input> group_inputs_;  ///< one per recompute group
};

}  // namespace troupe::runtime
