// Operations of a layer on a tape. Each runs at once and records a node for the backward pass.
//
// Parameters are named by their index in the unit of the current segment; -1 means none. R = B * T
// rows, or this rank's part of them where rows are sharded. A variable of C channels has extents
// (B, T, C), or (R, C) after its rows were sharded. Each operation states its placements on the
// tensor axis; with one rank they make no difference.
//
// "I" and "W" list what a node keeps for its input gradients and its weight gradients.

#pragma once

#include "runtime/autograd/tape.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace troupe::runtime {

constexpr int no_parameter = -1;

/// Properties of a micro-batch's rows for attention, rotary embedding and dropout.
struct row_layout {
  tensor positions;  ///< (B, T) i32, index into a learned position table
  /// (B, T) i32, ascending position of each row in its sequence: used by attention, rotary
  /// embedding and dropout, as in Megatron-LM.
  tensor order;
  tensor starts;   ///< (B + 1) i32, first row of each sequence, then the number of rows
  tensor samples;  ///< (B) u64, sample numbers within the run
  /// Set only if attention is limited to documents: (D + 1) i32 and (D) u64, as in
  /// batch_schema.hpp.
  tensor documents, document_samples;
  /// `order` is 0, 1, ..., T - 1 in every sequence.
  bool uniform = false;

  std::int64_t T() const { return order.extents()[1]; }
};

/// replicated or sequence_sharded -> replicated_partial_gradient. Megatron-LM's f, or g with
/// sequence parallelism. Forward: identity, or an all-gather of the rows. Backward: an all-reduce,
/// or a reduce-scatter.
variable copy_to_tensor_region(tape& tape, const variable& x);

/// partial -> replicated, or sequence_sharded with sequence parallelism. The conjugate of
/// copy_to_tensor_region: Megatron-LM's f-bar or g-bar. Forward: an all-reduce, or a reduce-scatter
/// to this rank's rows. Backward: identity, or an all-gather.
variable reduce_from_tensor_region(tape& tape, const variable& x);

struct norm_options {
  kernels::normalization kind = kernels::normalization::layer;
  float epsilon = 1e-5F;
  float gain_offset = 0;
};

/// Normalizes each row. replicated or sequence_sharded. I: x, gain, statistics. W: x, dy,
/// statistics.
variable norm(tape& tape, const variable& x, const norm_options& options, int gain, int bias);

/// Adds x to `residual`, which becomes the sum, and returns the norm of the sum. One fused
/// operation with the same bits as dropout_add without dropout followed by norm. Computes the sum
/// in place of x if no other variable shares its memory. Both have the same placement: replicated
/// or sequence_sharded.
variable residual_norm(tape& tape,
                       const variable& x,
                       variable& residual,
                       const norm_options& options,
                       int gain,
                       int bias);

enum class product : std::uint8_t {
  whole,   ///< replicated or sequence_sharded, which stays: every rank has the weight
  column,  ///< replicated_partial_gradient -> feature_sharded: output features are sharded
  row,     ///< feature_sharded -> partial: input features are sharded; no bias with several ranks
           ///< bias
};

/// act(x weight^T + bias): (.., K) -> (.., N), with N features on this rank. I: weight; z if there
/// is an activation; also z of a fused activation that produced x, because the backward pass goes
/// through it in the same product. W: x, dz; if x was gathered, it is gathered again.
variable linear(tape& tape,
                const variable& x,
                product kind,
                std::int64_t features,
                int weight,
                int bias,
                kernels::epilogue activation = kernels::epilogue::none);

/// feature_sharded. A gated activation halves the width. I: x.
variable activation(tape& tape, const variable& x, kernels::activation kind, bool gated = false);

/// residual + dropout(x + bias). Both replicated or both sequence_sharded. The backward pass
/// regenerates the mask.
variable dropout_add(tape& tape,
                     const variable& x,
                     const variable& residual,
                     float p,
                     std::uint64_t key,
                     const row_layout& rows,
                     int bias = no_parameter);

/// scale * dropout(x) without a residual. Returns x itself if p = 0 and scale = 1.
variable dropout(tape& tape,
                 const variable& x,
                 float p,
                 std::uint64_t key,
                 const row_layout& rows,
                 float scale = 1);

/// table[tokens] + position_table[positions]: (B, T) -> (B, T, C), partial. Each rank has `words`
/// rows of the table. No position table with several ranks. W: tokens, positions, dy.
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
  std::int64_t value_size = 0;                        ///< head size of values; 0: head_size
  float scale = 1;
  float dropout = 0;
  std::uint64_t key = 0;          ///< of the dropout mask
  std::int32_t window = -1;       ///< number of previous keys that are visible; -1: all
  std::int64_t rotated = 0;       ///< rotated elements per head
  std::int64_t rotated_from = 0;  ///< the first of them
  float rotary_magnitude = 1;     ///< of cosine and sine
  tensor rotary_frequency = {};   ///< (rotated / 2) f32
  bool rotary_interleaved = false;
  bool causal = true;
  bool same_bits = true;  ///< false: the backward pass may be nondeterministic
  /// The first elements of a key are its value; only cached_attention takes it.
  bool values_in_keys = false;

  std::int64_t values() const { return value_size == 0 ? head_size : value_size; }
  /// Place of the key in the fused layout of a group, [q .. q k v].
  std::int64_t key_place() const { return heads / groups * head_size; }
  /// Elements of a key and its value.
  std::int64_t pair_width() const { return head_size + (values_in_keys ? 0 : values()); }
  std::int64_t group_width() const { return key_place() + pair_width(); }
};

struct head_norm_parameters {
  int gain = no_parameter, bias = no_parameter;
};

/// Normalizes each head of the queries and keys in a fused QKV product. feature_sharded. I and W:
/// x, statistics.
variable head_norm(tape& tape,
                   const variable& qkv,
                   const attention_options& heads,
                   const norm_options& options,
                   head_norm_parameters query,
                   head_norm_parameters key);

/// Normalizes all queries of a row together, and all keys, in a fused QKV product. Gains are of all
/// heads in turn. feature_sharded, on a single rank. I and W: queries, keys, statistics.
variable row_norm(tape& tape,
                  const variable& qkv,
                  const attention_options& heads,
                  const norm_options& options,
                  head_norm_parameters query,
                  head_norm_parameters key);

/// Biases of scores by head and distance, key position minus query position. `values` (H, count)
/// f32, of distances `first` to `first` + count - 1; they cover every visible pair.
struct score_bias {
  variable values = {};  ///< feature_sharded; without data: no bias
  std::int32_t first = 0;
};

/// Biases from the parameter `table` (buckets, H): values[h, i] = table[bucket[i], h]. `bucket`
/// (count) i32; H heads of this rank. feature_sharded. A frozen table needs no gradient of the
/// values. W: that gradient, bucket.
score_bias relative_bias(
    tape& tape, int table, shape extents, const tensor& bucket, std::int32_t first);

/// Self-attention over a fused QKV product in Megatron's layout, [q .. q k v] in each group:
/// (.., H D + G (D + Dv)) -> (.., H Dv). feature_sharded. Applies the rotary embedding in place if
/// no other variable shares `qkv`. I: the rotated product, the output, its log-sum-exp, the bias.
variable self_attention(tape& tape,
                        variable qkv,
                        const attention_options& options,
                        const row_layout& rows,
                        const score_bias& bias = {});

/// Attention of queries (.., H D) to the keys and values of other rows, [k v] in each group:
/// (.., G (D + Dv)) -> (.., H Dv). feature_sharded. `queries` and `keys` have as many sequences, or
/// as many documents (ATTENTION-4); document d of the queries sees document d of the keys. Rows
/// after the last token of a sample are a document of their own. No rotary embedding. I: both
/// products, the output, its log-sum-exp, the bias.
variable cross_attention(tape& tape,
                         const variable& q,
                         const variable& kv,
                         const attention_options& options,
                         const row_layout& queries,
                         const row_layout& keys,
                         const score_bias& bias = {});

/// Rows of a micro-batch by number, in any order, repeated or not.
struct row_numbers {
  tensor index;       ///< (n) i32, numbers over all tensor ranks; -1: none
  std::int64_t rows;  ///< numbers are below it
};

/// Uploads row numbers. Throws input_error for the first that is neither -1 nor below `rows`;
/// `what` names the list.
row_numbers numbered_rows(stream& stream,
                          std::span<const std::int64_t> numbers,
                          std::int64_t rows,
                          std::string_view what);
/// The first row of each sequence.
row_numbers first_rows(const row_layout& rows);

/// (R, C) -> (n, C): row i is x[index[i]], or 0 for -1. replicated or sequence_sharded ->
/// replicated. Sharded rows are summed over the ranks: each adds those that it has, so that n rows
/// move and not R. The gradient of a row is the sum of its uses in the order of `index`, without a
/// collective. I: index. Breaks ROWS-1 unless x has rows.rows rows over all ranks.
variable gather_rows(tape& tape, const variable& x, const row_numbers& rows);

/// (n, C) -> (R, C), the conjugate: row r is the sum of x[i] over index[i] = r, in the order of i;
/// rows without a number are 0. replicated -> replicated, or sequence_sharded with sequence
/// parallelism: each rank then adds its own rows. The gradient of x[i] is that of row index[i], or
/// 0 for -1. I: index. Breaks ROWS-1 unless x has a row for each number, and TAPE-6 unless tensor
/// ranks share whole rows.
variable scatter_rows(tape& tape, const variable& x, const row_numbers& rows);

/// Puts the channels of all parts side by side. All are replicated, or all are sequence_sharded.
variable join_channels(tape& tape, const std::vector<variable>& parts);

/// Cuts the channels of x into parts of these widths, which add up to all channels. replicated,
/// sequence_sharded or replicated_partial_gradient. The gradient of an unused part is 0.
std::vector<variable> split_channels(tape& tape,
                                     const variable& x,
                                     const std::vector<std::int64_t>& widths);

/// The fused QKV product of latent attention, where G = H. A key is a part of its own and a part
/// that all heads share. q (.., H D) and kv (.., H (D - S + Dv)), own key then value in each head,
/// are feature_sharded; shared_key (.., S) is replicated_partial_gradient. Breaks LATENT-1 unless
/// groups = heads and rotated_from = D - S.
variable latent_qkv(tape& tape,
                    const variable& q,
                    const variable& kv,
                    const variable& shared_key,
                    const attention_options& options);

/// Builds the fused product for decoding, without a backward pass. Multiplies queries by the own
/// part of the parameter `up` (H (D - S + Dv), L), so that the latent (.., L) with the shared key
/// is the key of all heads. The result has one group, with heads of L + S. latent and shared_key
/// are replicated_partial_gradient. `options` are those of latent_qkv. Breaks LATENT-1.
variable absorbed_qkv(tape& tape,
                      const variable& q,
                      const variable& latent,
                      const variable& shared_key,
                      int up,
                      const attention_options& options);
/// The options of attention over absorbed_qkv.
attention_options absorbed(const attention_options& options, std::int64_t latent);
/// Multiplies the output of that attention, sums of latents (.., H L), by the value part of `up`:
/// (.., H Dv). feature_sharded. `options` are those of latent_qkv.
variable absorbed_output(tape& tape, const variable& o, int up, const attention_options& options);

/// Key-value cache of one layer for decoding: B sequences of `capacity` rows, or sequences in pages
/// of 64 rows.
struct attention_cache {
  /// (cache rows, G, D + Dv), key then value; (.., D) with attention_options::values_in_keys
  tensor entries;
  tensor positions;  ///< (cache rows) i32; INT32_MAX in unused rows
  tensor starts;     ///< (B + 1) i32
  tensor rows;       ///< (new rows) i32, cache row of each new row

  // In pages, `starts` counts rows of whole pages, in the order of sequences. The new rows are
  // documents of a sequence each.
  tensor pages;              ///< i32, the cache's page of each of these; empty: not in pages
  tensor order;              ///< i32, position of each of these rows: 0, 1, ... in each sequence
  std::int64_t longest = 0;  ///< rows of the longest sequence

  /// Positions of a sequence are below this.
  std::int64_t capacity() const { return pages ? longest : positions.size() / (starts.size() - 1); }
};

/// Attention for decoding, without a backward pass: appends the keys and values of the new rows to
/// the cache and attends to all of it.
variable cached_attention(tape& tape,
                          variable qkv,
                          const attention_options& options,
                          const row_layout& rows,
                          attention_cache& cache,
                          const score_bias& bias = {});

/// Cross-attention for decoding, without a backward pass. `fill_cross_cache` stores the keys and
/// values of all later calls; before it the cache is empty.
void fill_cross_cache(attention_cache& cache, const variable& kv, const row_layout& keys);
inline bool is_filled(const attention_cache& cache) {
  return cache.entries.size() > 0;
}
variable cached_cross_attention(tape& tape,
                                const variable& q,
                                const attention_options& options,
                                const row_layout& queries,
                                const attention_cache& cache,
                                const score_bias& bias = {});

/// A loss on the host. On a stream it is a tensor (2) f64 of these two values, which the host reads
/// only at the end of a step.
struct loss_value {
  double total = 0;   ///< sum over the rows that count
  double tokens = 0;  ///< number of rows that count

  loss_value& operator+=(const loss_value& x) {
    total += x.total;
    tokens += x.tokens;
    return *this;
  }
  /// Per row that counts; NaN where none does.
  double mean() const {
    return tokens > 0 ? total / std::max(tokens, 1.0) : std::numeric_limits<double>::quiet_NaN();
  }
};

/// A micro-batch computes the gradient of this scalar.
struct loss_average {
  float scale = 1;
  /// True: scale * total / rows, with all rows counted. The update divides by the number of tokens
  /// (decision.hpp), which is known only after the step's last micro-batch. False: scale * total /
  /// tokens.
  bool per_row = false;

  /// Factor on the loss of each row that counts.
  double weight(double tokens, std::int64_t rows) const {
    const double divisor = per_row ? double(rows) : tokens;
    return divisor > 0 ? scale / divisor : 0;
  }
};

/// Waits for the stream's earlier work.
loss_value loss_of(const stream& stream, const tensor& sums);
/// Converts a loss that was computed on the host.
tensor loss_sums(stream& stream, const loss_value& x);

/// Cross-entropy of (.., V) logits. feature_sharded: V is this rank's part of the vocabulary;
/// replicated, as of a classification head: V is the whole. `targets` (..) i32; rows count where
/// `mask` (..) f32 is 1. `vocabulary` is the size over all ranks, without padding. Returns (2) f64:
/// total, tokens; equal on all ranks.
///
/// While the tape records, it computes the gradient of `average` together with the loss, over the
/// logits if no other variable shares them. Consumes the logits. I: their gradient.
tensor cross_entropy(tape& tape,
                     variable logits,
                     const tensor& targets,
                     const tensor& mask,
                     std::int64_t vocabulary,
                     loss_average average);

/// Log-probability of each row's target: (R) f32, replicated. Logits and targets as those of
/// cross_entropy. Later operations give its gradient, so I keeps the logits and overwrites them
/// with their gradient if no other variable shares them. I: logits, targets.
variable token_log_probs(tape& tape,
                         variable logits,
                         const tensor& targets,
                         std::int64_t vocabulary);

}  // namespace troupe::runtime
