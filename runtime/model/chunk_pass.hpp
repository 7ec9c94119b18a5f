// Runs one micro-batch through one chunk: forward pass, then backward pass by blocks.

#pragma once

#include "runtime/model/recompute_plan.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

  /// Input: the tensors of chunk_flow::batch and chunk_flow::before, by name.
  ///
  ///   * "positions" (B, T) i32, or those of each stream (stream_spec::positions), and "samples"
  ///     (B) u64;
  ///   * what units read of the batch: "tokens" (B, T) i32; "labels" i32 and "mask" f32, both
  ///     (B, T), unless only logits are wanted;
  ///   * streams (B, T, C) by their names, or this rank's rows of them if they are sharded;
  ///   * "documents" (D + 1) i32 and "document_samples" (D) u64, if attention ends at document
  ///     boundaries (batch_schema.hpp).
  ///
  /// Output: the tensors of chunk_flow::after, or "logits" if a head gets no labels.
  ///
  /// `given`: streams of a whole model that `in` has complete. Their units do not run.
  bundle forward(const bundle& in,
                 std::vector<attention_cache>* caches = nullptr,
                 std::span<const std::string> given = {});

  /// Runs only the units that work on these streams of a whole model, without a backward pass, and
  /// returns the streams. `in` is what these units read of the micro-batch.
  bundle streams(const bundle& in, std::span<const std::string> names);

  /// `then` is called with a unit's number once this pass has read its parameters for the last
  /// time. It is called for units that end a stream, and for units without
  /// module_traits::reads_backward: after the unit's forward pass if nothing reads them later,
  /// otherwise after all I of chunk::read_until. The parameters of other units are in use until
  /// `emit`.
  void on_read(std::function<void(int unit)> then) { read_ = std::move(then); }

  /// R: recomputes the block's group. Call it once, before the block's I.
  void recompute(int block);

  /// I. Input of the last block: the gradients of the streams of chunk_flow::after. Output of the
  /// first block: those of chunk_flow::before.
  bundle input_gradients(const bundle& in, int block);

  /// W. Adds gradients to the store and emits every complete unit.
  void weight_gradients(int block);

  /// I and W of a block, for a chunk that exchanges nothing with other stages. Runs I and W segment
  /// by segment to free memory early. Exception: with `on_read`, all I of a unit that ends its
  /// stream run before its W, so its parameters are released earlier. Same bits either way.
  void backward(int block);

  int blocks() const { return int(plan_.blocks.size()); }
  /// The losses that the forward pass of this chunk wrote.
  const pass_losses& losses() const { return pass_.losses; }
  const std::map<int, runtime::expert_rows>& expert_rows() const { return pass_.expert_rows; }
  /// The choices that the forward pass recorded, by segment. Recomputation then records none.
  std::map<int, recorded_choice> take_choices() {
    pass_.settings.records_choices = false;
    return std::exchange(pass_.choices, {});
  }
  /// The sum of the losses of this name. Waits for the stream. Breaks MODEL-9 if the forward pass
  /// of this chunk wrote none.
  loss_value loss(std::string_view name = lm_loss);

 private:
  void go_on() const;  ///< throws `cancelled` if the generation has ended

  using gradient_slots = std::map<std::string, std::shared_ptr<gradient_slot>, std::less<>>;

  struct group_input {
    pass_variables variables;  ///< where the recompute group begins
    gradient_slots slots;      ///< of its results, by name; null: not made in the group
  };

  row_layout rows_at(const bundle& in, const stream_spec& of, bool decoding);
  void begin_rows(const bundle& in, bool decoding, std::span<const std::string> without = {});
  bool idles(int s) const;  ///< segment s belongs to a unit that does not run
  bool begins_unit(int s) const;
  bool ends_unit(int s) const;
  bool ends_stream(int s) const;
  void take_inputs(const bundle& in);
  bundle outputs(const bundle& in);
  /// Moves pass::hidden to pass::streams.
  void park();
  pass_variables& variables() { return pass_; }
  void run_segment(int s);
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
  std::string current_;                    ///< the stream in pass::hidden; empty: none
  std::vector<std::string> idle_;          ///< streams whose units do not run
  gradient_slots inputs_, outputs_;        ///< gradients of the streams that cross the chunk's cuts
  std::vector<group_input> group_inputs_;  ///< one per recompute group
};

}  // namespace troupe::runtime
