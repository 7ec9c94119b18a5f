// A segment of a chunk's program, and the state that a pass carries through the segments.

#pragma once

#include "runtime/autograd/ops.hpp"
#include "runtime/autograd/step_counts.hpp"
#include "runtime/core/cancel.hpp"
#include "runtime/model/expert_choices.hpp"
#include "runtime/telemetry/expert_load.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::runtime {

struct pass_settings {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;      ///< part of the dropout key
  bool training = true;        ///< enables dropout and tape recording
  double loss_scale = 1;       ///< gradients are those of loss_scale * mean loss
  bool losses = true;          ///< false: only logits are wanted, and pass::add_loss does nothing
  bool limits_experts = true;  ///< false: experts take all their rows, whatever their capacity
  /// Averages the loss over all rows of the micro-batch, masked or not: see loss_average.
  bool per_token_loss = false;
  /// False allows faster sums of gradients in a nondeterministic order.
  bool same_bits = true;
  /// How rows reach the ranks of their experts: see dispatch.hpp. Changes no bit.
  bool gathers_rows = false;
  /// With a shadow pool: rows of this rank's experts, divided by the balanced number.
  double expert_load = 1;
  bool counts_experts = false;       ///< routers write pass::expert_rows
  bool records_choices = false;      ///< routers write pass::choices
  choice_reader* replays = nullptr;  ///< choices that routers take; null: they choose
  /// For losses over replicas. Null: they count the micro-batch of this pass.
  runtime::step_counts* step_counts = nullptr;
  /// Checked between segments: throws `cancelled` once the generation has ended. Null: never.
  const cancel_token* until = nullptr;
};

/// A loss of a model. Steps and evaluations report the mean of each, and the weighted sum.
struct loss_spec {
  /// Words of a-z, 0-9 and _ with single spaces, the last one "loss" or ending in "_loss". It does
  /// not begin with "validation" or "test" as a word. A measure may have the name "accuracy".
  std::string name;
  double weight = 1;  ///< factor of its gradient; 0: a measure, which is reported only
  /// The mean is a negative log-likelihood in nats, so e^mean is a perplexity.
  bool has_perplexity = false;
  /// True: a loss of all replicas together, each with its part of the sum. As in Megatron-LM, the
  /// gradient is that of the mean part, so the weight in the objective is weight / replicas.
  bool over_replicas = false;
};

/// Where a pass writes a loss: a segment of a chunk.
struct loss_place {
  std::int64_t unit = 0;  ///< of the model
  int segment = 0;        ///< of the chunk
  std::string name;
  auto operator<=>(const loss_place&) const = default;
};
/// (2) f64 each, see loss_value.
using pass_losses = std::map<loss_place, tensor>;

using named_variables = std::map<std::string, variable, std::less<>>;

/// What a segment hands on to later ones. A recompute group keeps it as it is at its beginning.
struct pass_variables {
  named_variables streams;  ///< those that no running unit works on, by name
  variable x;               ///< output of a segment of a layer, input of the next
  /// Further variables that later segments of the same module read, by names of the module. Each is
  /// read, and the last reader takes it (pass::take).
  named_variables locals;
  /// Constant data of the same module without a gradient, such as the plan of an exchange. The last
  /// reader resets it.
  std::shared_ptr<const void> own;
};

/// The state of one micro-batch while its segments run. A unit leaves no locals (MODEL-11).
struct pass : pass_variables {
  pass_settings settings;
  row_layout rows;                                         ///< of the current unit's stream
  std::map<std::string, row_layout, std::less<>> rows_of;  ///< of each stream, by name
  bundle batch;  ///< tensors of the micro-batch that this chunk or a later one reads
  /// The stream of the current unit: (B, T, C), replicated; (B T / TP, C) if rows are sharded.
  variable hidden;
  /// Pending addend of `hidden`; the next segment adds it. Empty: none.
  variable addend;
  bool next_adds = false;  ///< the next segment accepts `addend` (segment::adds)
  loss_place place = {};   ///< the running segment
  /// True in the last segment of a recomputation: only the gradients of its results are used.
  bool unread = false;
  pass_losses losses;
  /// Choices of the routers, by segment. A recomputation writes the same again.
  std::map<int, runtime::expert_rows> expert_rows;
  std::map<int, recorded_choice> choices;  ///< of the routers, by segment
  /// What counts_of_step returned, by segment. A recomputation reads it.
  std::map<int, counted_choices> counted;
  tensor rotary_frequency;  ///< (rotated / 2) f32; empty without rotary positions
  tensor logits;            ///< (B, T, V / TP); set if there are no labels
  std::vector<attention_cache>* caches = nullptr;  ///< decoding: one for each of chunk::caches()

  /// Removes a local variable and returns it. Breaks MODEL-11 if no segment wrote it.
  variable take(std::string_view local);
  /// The dropout rate of this pass: 0 unless training.
  float dropout_rate(double rate) const { return settings.training ? float(rate) : 0.0F; }
  std::uint64_t dropout_key(const std::string& name) const;
  /// The average whose gradient a loss of this weight adds: loss scale and weight are factors.
  loss_average average(double weight) const;
  /// The choices in the step so far, of all replicas: see step_counts::add. `counts` (.., E) are
  /// those of this micro-batch. Only with pass_settings::step_counts.
  counted_choices counts_of_step(stream& by, const tensor& counts, std::int64_t rows);
  /// Writes a loss that the module's traits name. `rows`: placements of the variable whose rows it
  /// adds. `sums` is (2) f64, over the rows of all ranks. A segment writes each loss at most once;
  /// when it is recomputed it writes it again. Breaks MODEL-7 and MODEL-8.
  void add_loss(const std::string& name, const axis_map<placement>& rows, tensor sums);
};

/// The module of a segment, for selective recomputation. A product with a fused activation has the
/// module of its reader.
enum class recompute_module : std::uint8_t {
  other,
  core_attention,
  feed_forward,
  experts,            ///< of a mixture of experts, without the two parts below
  expert_activation,  ///< a part of `experts`
  shared_experts,     ///< a part of `experts`
};

struct segment {
  std::string name;
  int unit = 0;
  std::int64_t layer = -1;  ///< -1: no layer
  recompute_module module = recompute_module::other;
  std::function<void(tape&, pass&)> forward;
  bool adds = false;  ///< adds a pending pass::addend to pass::hidden
};

}  // namespace troupe::runtime
