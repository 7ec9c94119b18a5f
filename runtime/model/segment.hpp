// A segment of a chunk's program, and the pass that runs through all of them.

#pragma once

#include "runtime/autograd/ops.hpp"
#include "runtime/core/cancel.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// What one pass of a micro-batch is told from outside.
struct pass_settings {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  ///< keys the dropout
  bool training = true;    ///< dropout on, tape recording
  double loss_scale = 1;   ///< the gradient is that of loss_scale * mean loss
  /// The mean over all rows of the micro-batch, masked or not: loss_average.
  bool per_token_loss = false;
  /// false: gradients may be summed in an order that differs each time, where that is faster.
  bool same_bits = true;
  /// Looked at between segments: a pass whose generation has ended throws `cancelled`. Null:
  /// nothing ends it.
  const cancel_token* until = nullptr;
};

/// The state of one micro-batch while the segments run.
struct pass {
  pass_settings settings;
  row_layout rows;
  tensor tokens, labels, mask;  ///< where the chunk has the embedding, the head
  variable hidden;              ///< (B, T, C), replicated; (B T / TP, C) where rows are sharded
  variable x;                   ///< what one segment of a layer hands to the next
  /// What is still to be added to `hidden`, by the next segment. Empty: nothing.
  variable addend;
  bool next_adds = false;   ///< it takes both (segment::adds): so this one may leave it that
  tensor loss;              ///< (2) f64, see loss_value; with labels
  tensor rotary_frequency;  ///< (rotated / 2) f32, where there are some
  tensor logits;            ///< (B, T, V / TP), when no labels were given
  std::vector<attention_cache>* caches
      = nullptr;  ///< decoding: one for each attention of the chunk

  /// The rate of a dropout now: 0 unless training.
  float dropout_rate(double rate) const { return settings.training ? float(rate) : 0.0F; }
  /// The key of the dropout of this name, in this step.
  std::uint64_t dropout_key(const std::string& name) const;
};

/// Which module of a layer a segment belongs to, for selective recomputation.
enum class recompute_module : std::uint8_t { other, core_attention, feed_forward };

struct segment {
  std::string name;
  int unit = 0;
  std::int64_t layer = -1;  ///< -1: embedding or head
  recompute_module module = recompute_module::other;
  std::function<void(tape&, pass&)> forward;
  bool adds = false;  ///< pass::addend to pass::hidden, where there is one
};

}  // namespace troupe::runtime
