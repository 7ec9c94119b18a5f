// The router of a mixture of experts on a tape: logits in f32, choice, weights, losses.
//
//   auto logits = gate(tape, p.x, p.rows, E, weight);
//   auto found = route(tape, logits, p.rows, {.rules = {.E = E, .k = 2}, .z = p.average(1e-3)});
//   p.add_loss("z_loss", {}, found.z);
//
// Both operations take replicated or sequence_sharded rows. The losses are those of the rows of all
// tensor ranks. Rows of sequences are as in row_layout.

#pragma once

#include "kernels/op/route.hpp"
#include "runtime/autograd/ops.hpp"
#include "runtime/autograd/step_counts.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace troupe::runtime {

/// Multiplies the input of a gate by random factors from 1 - eps to 1 + eps. The backward pass
/// regenerates them.
struct gate_noise {
  float eps = 0;
  std::uint64_t key = 0;
};

/// x weight^T + bias in f32, whatever the type of x: (.., C) -> (.., E). The weight (E, C) and the
/// bias (E) have keep_f32. I: weight. W: x, the gradient.
variable gate(tape& tape,
              const variable& x,
              const row_layout& rows,
              std::int64_t experts,
              int weight,
              int bias = no_parameter,
              const gate_noise& noise = {});

/// A load balancing loss, which is 1 where all experts have the same share.
struct balance_loss {
  loss_average average;
  /// True: the mean over the sequences. False: over the whole micro-batch.
  bool by_sequence = false;
  /// Returns counts to use instead of those of this micro-batch: the global loss. Gets the latter,
  /// (parts, B, E) u64, with a part for each tensor rank. Null: none.
  std::function<counted_choices(const tensor& counts)> counts = {};
};

struct route_options {
  kernels::route_rules rules;
  tensor bias = {};  ///< (E) f32, added to the keys; or empty
  /// (.., k) i32, the choice of an earlier pass; or empty. The caller checks that the experts of a
  /// row are distinct and in [0, E): backends read and write at these indices.
  tensor given = {};
  bool some_given = false;  ///< rows of -1 in `given` are chosen as without it
  bool round_robin = false;
  bool sinkhorn = false;  ///< chooses by the balanced matrix of this rank's rows; no `bias`
  bool quantile = false;  ///< computes routed::quantile_bias; one group, k < E
  std::vector<balance_loss> balance = {};
  std::optional<loss_average> z = {};
};

struct routed {
  variable weights;             ///< (.., k) f32, with one consumer: the gradient is f32, too
  tensor chosen;                ///< (.., k) i32
  tensor counts;                ///< (B, E) u64: choices of this rank's rows, by sequence
  std::vector<tensor> balance;  ///< (2) f64 for each of route_options::balance; see loss_value
  tensor z;                     ///< (2) f64; or empty
  tensor quantile_bias;         ///< (E) f32, of all tensor ranks' rows; or empty
};

/// Chooses experts. Logits (.., E) f32 have no other use: their gradient is f32 in every store. The
/// balance losses count the k largest keys of each row, without bias, groups or replay, as in
/// Megatron-LM. Their gradients and that of z are added here. I: logits, chosen, log-sum-exp.
/// Breaks ROUTE-1 if the rules contradict each other or the tensors.
routed route(tape& tape,
             const variable& logits,
             const row_layout& rows,
             const route_options& options);

}  // namespace troupe::runtime
