// The passes of one micro-batch over one chunk: forward, and back by blocks.

#pragma once

#include "runtime/model/recompute_plan.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace troupe::runtime {

/// One micro-batch on one chunk: forward, then for each block, the last first, R where it is
/// recomputed, I and W. Used by one lane; chunk, plan, stream, store and groups outlive it. Broken
/// promise CHUNK-1 unless each group along an axis of the model is that which the chunk was cut
/// for.
class chunk_pass {
 public:
  chunk_pass(const chunk& of,
             const recompute_plan& plan,
             stream& stream,
             parameter_store& store,
             const pass_settings& settings,
             const axis_map<communicator*>& groups = {});

  /// In: "positions" (B, T) i32, "samples" (B) u64, and "tokens" (B, T) i32 for the embedding or
  /// "hidden" (B, T, C), this rank's rows of it where they are sharded; for the head "labels" i32
  /// and "mask" f32, both (B, T), unless only logits are wanted. Out: "hidden" with "positions" and
  /// "samples", or "logits" without labels. "documents" (D + 1) i32 and "document_samples" (D) u64
  /// go in and out beside "samples" where attention ends at documents (micro_batch.hpp).
  bundle forward(const bundle& in, std::vector<attention_cache>* caches = nullptr);

  /// Called once with the number of the embedding's or the head's unit, when this pass reads its
  /// values no more: within `forward` for an embedding that no head of this chunk is tied to; else
  /// when all I of the head have run. What other units hold is read until they are emitted.
  void on_read(std::function<void(int unit)> then) { read_ = std::move(then); }

  /// R: runs the recompute group of the block again. Once, before its I.
  void recompute(int block);

  /// I. In: for the last block "hidden", the gradient of what went out; nothing for the head. Out:
  /// for the first block "hidden", the gradient of what came in; nothing for the embedding.
  bundle input_gradients(const bundle& in, int block);

  /// W. Adds to the store and emits every unit that is complete.
  void weight_gradients(int block);

  /// I and W of a block of a chunk that has embedding and head, and so waits for nobody and is
  /// waited for by nobody: segment by segment, so that what they need is not held until the block's
  /// I has ended. But of the head all I come before all W where somebody asks when values are read:
  /// the norm's reads them, and comes after the output layer, whose gradient is the largest. The
  /// same bits.
  void backward(int block);

  int blocks() const { return int(plan_.blocks.size()); }
  /// (2) f64, see loss_value.
  const tensor& loss_sums() const { return pass_.loss; }
  /// Waits until the stream has come so far.
  loss_value loss() { return loss_of(tape_.stream(), pass_.loss); }

 private:
  void go_on() const;  ///< throws `cancelled` when nobody waits for this pass any more

  /// The inputs of a recompute group, and the slots that it gave its results.
  struct group_input {
    variable hidden, x;
    std::shared_ptr<gradient_slot> hidden_slot, x_slot;
  };

  void begin_rows(const bundle& in, bool decoding);
  bool begins_unit(int s) const;
  bool is_of_head(int s) const;
  void note_forward(int s) const;
  void note_input_gradients(int s) const;
  bool next_adds(int s) const;  ///< segment s may leave a sum to the next one
  void run(int first, int end);
  void run_unrecorded(const recompute_group& which);

  std::function<void(int)> read_;
  const chunk& chunk_;
  const recompute_plan& plan_;
  tape tape_;
  pass pass_;
  variable input_;
  std::shared_ptr<gradient_slot> output_;  ///< where the gradient of what went out comes back
  std::vector<group_input> group_inputs_;  ///< of each recompute group
};

}  // namespace troupe::runtime
