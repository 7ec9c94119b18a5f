// The operations of a layer, on a tape. Each runs at once and leaves a node for the backward pass.
//
// Parameters are named by their index in the unit of the current segment; -1 means there is none.
// Rows R = B * T throughout, less where they are sharded; a variable of C channels has extents
// (B, T, C), or (R, C) once its rows were sharded. Beside each operation stands how its variables
// lie on the tensor axis; with one rank all of it is the same.

#pragma once

#include "runtime/autograd/tape.hpp"

#include <cstdint>

namespace troupe::runtime {

constexpr int no_parameter = -1;

/// What attention, rotary embedding and dropout must know of the rows of a micro-batch.
struct row_layout {
  tensor positions;  ///< (B, T) i32, which row of a learned position table is added to each row
  tensor order;      ///< (B, T) i32, place of each row in its sequence, ascending: what attention,
                     ///< rotation and dropout go by, as in Megatron-LM
  tensor starts;     ///< (B + 1) i32, first row of each sequence, then all rows
  tensor samples;    ///< (B) u64, global sample positions
  /// Where attention ends at documents, else empty: (D + 1) i32 and (D) u64, as in micro_batch.
  tensor documents, document_samples;
  /// `order` is 0, 1, ..., T - 1 in every sequence.
  bool uniform = false;

  std::int64_t T() const { return order.extents()[1]; }
};

/// replicated or sequence_sharded -> replicated_partial_gradient. What Megatron-LM calls f, or g
/// with sequence parallelism: nothing, or the rows of all ranks are gathered; the backward pass
/// sums, and scatters where it gathered.
variable copy_to_tensor_region(tape& tape, const variable& x);

/// partial -> replicated, or sequence_sharded under sequence parallelism. The conjugate of
/// copy_to_tensor_region, Megatron-LM's
/// f-bar or g-bar: the sum over the ranks, or this rank's rows of it; the backward pass gathers
/// these.
variable reduce_from_tensor_region(tape& tape, const variable& x);

struct norm_options {
  kernels::normalization kind = kernels::normalization::layer;
  float epsilon = 1e-5F;
  float gain_offset = 0;
};

/// Normalisation of each row; replicated or sequence_sharded. I: x, gain, statistics. W: x, dy,
/// statistics.
variable norm(tape& tape, const variable& x, const norm_options& options, int gain, int bias);

/// The same of residual + x, which takes the place of `residual`: one operation, with the bits of
/// dropout_add without dropout and norm. It is made where x lies, if nobody else has that. Both lie
/// alike; replicated or sequence_sharded.
variable residual_norm(tape& tape,
                       const variable& x,
                       variable& residual,
                       const norm_options& options,
                       int gain,
                       int bias);

enum class product : std::uint8_t {
  column,  ///< replicated_partial_gradient -> feature_sharded: output features are sharded
  row,     ///< feature_sharded -> partial: input features are sharded; with several ranks without a
           ///< bias
};

/// act(x weight^T + bias): (.., K) -> (.., N), N features on this rank. I: weight (z for an
/// activation, and that of the activation that made x, which the backward pass goes through at
/// once). W: x, dz; x is gathered again where it was.
variable linear(tape& tape,
                const variable& x,
                product kind,
                std::int64_t features,
                int weight,
                int bias,
                kernels::epilogue activation = kernels::epilogue::none);

/// feature_sharded. swiglu halves the width. I: x.
variable activation(tape& tape, const variable& x, kernels::activation kind);

/// residual + dropout(x + bias); both replicated or both sequence_sharded. The mask is drawn again
/// on the backward pass.
variable dropout_add(tape& tape,
                     const variable& x,
                     const variable& residual,
                     float p,
                     std::uint64_t key,
                     const row_layout& rows,
                     int bias = no_parameter);

/// dropout(x) alone, without a residual. p = 0 gives x itself.
variable dropout(tape& tape, const variable& x, float p, std::uint64_t key, const row_layout& rows);

/// table[tokens] + position_table[positions]: (B, T) -> (B, T, C), partial; each rank has `words`
/// rows of the table. With several ranks without a position table. W: tokens, positions, dy.
variable embedding(tape& tape,
                   const tensor& tokens,
                   const row_layout& rows,
                   std::int64_t channels,
                   std::int64_t words,
                   int table,
                   int position_table);

/// x + table[positions]; replicated or sequence_sharded. W: positions, dy.
variable add_positions(tape& tape, const variable& x, const row_layout& rows, int table);

struct attention_options {
  std::int64_t heads = 0, groups = 0, head_size = 0;  ///< on this rank
  float scale = 1;
  float dropout = 0;
  std::uint64_t key = 0;         ///< of the dropout
  std::int32_t window = -1;      ///< keys up to so many places back are seen; -1: all
  std::int64_t rotated = 0;      ///< elements of a head that are rotated
  tensor rotary_frequency = {};  ///< (rotated / 2) f32
  bool rotary_interleaved = false;
  bool same_bits = true;  ///< false: the backward pass may have other bits each time
};

struct head_norm_parameters {
  int gain = no_parameter, bias = no_parameter;
};

/// Normalises each head of queries and keys in a fused product; feature_sharded. I and W: x,
/// statistics.
variable head_norm(tape& tape,
                   const variable& qkv,
                   const attention_options& heads,
                   const norm_options& options,
                   head_norm_parameters query,
                   head_norm_parameters key);

/// Causal self-attention over a fused product, Megatron's [q .. q k v] in each group:
/// (.., (H + 2 G) D) -> (.., H D), feature_sharded. Rotates in place where nobody else has `qkv`.
/// I: the rotated product, the output, its log-sum-exp.
variable self_attention(tape& tape,
                        variable qkv,
                        const attention_options& options,
                        const row_layout& rows);

/// Keys and values of earlier rows, for decoding. One layer, B sequences of `capacity` rows.
struct attention_cache {
  tensor entries;    ///< (B * capacity, G, 2, D): key, then value
  tensor positions;  ///< (B * capacity) i32; INT32_MAX where nothing is yet
  tensor starts;     ///< (B + 1) i32
  tensor rows;       ///< (new rows) i32: where each row of this pass is kept
};

/// The same without a backward pass: the new rows' keys and values go to the cache, the queries
/// attend to all of it.
variable cached_attention(tape& tape,
                          variable qkv,
                          const attention_options& options,
                          const row_layout& rows,
                          attention_cache& cache);

/// Where it is computed, a loss is a tensor (2) f64 of these two: nobody waits for it before the
/// end of a step.
struct loss_value {
  double total = 0;   ///< sum of the losses of the rows that count
  double tokens = 0;  ///< how many count
};

/// What the gradient of the loss of a micro-batch is taken of.
struct loss_average {
  float scale = 1;
  /// Of scale * total / rows, masked or not: how many tokens of the step count is known when its
  /// last micro-batch has passed, and the update divides by them (decision.hpp). Else of scale *
  /// total / tokens.
  bool per_row = false;

  /// What the loss of each row that counts is multiplied by.
  double weight(double tokens, std::int64_t rows) const {
    const double divisor = per_row ? double(rows) : tokens;
    return divisor > 0 ? scale / divisor : 0;
  }
};

/// Waits until the stream has come so far.
loss_value loss_of(const stream& stream, const tensor& sums);
/// Of a loss that was computed on the host.
tensor loss_sums(stream& stream, const loss_value& x);

/// Cross-entropy of (.., V), feature_sharded: of the vocabulary this rank's columns. Against
/// `targets` (B, T) i32, where `mask` (B, T) f32 is 1. The gradient that goes back is that of
/// `average`, which is known now: where the tape records, it is computed with the loss, over the
/// logits unless somebody else still has them. Consumes the logits. I: their gradient.
/// `vocabulary` is that of all ranks, without padding. Returns the loss as (2) f64: total, tokens;
/// every rank has the same.
tensor cross_entropy(tape& tape,
                     variable logits,
                     const tensor& targets,
                     const tensor& mask,
                     std::int64_t vocabulary,
                     loss_average average);

}  // namespace troupe::runtime
