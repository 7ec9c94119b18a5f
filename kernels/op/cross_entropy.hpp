// Softmax cross-entropy, fused: probabilities are not stored.
//
//   lse[r]  = log sum_{v < vocabulary} exp(logits[r,v])
//   loss[r] = lse[r] - logits[r, target[r]]
//   dlogits[r,v] = (exp(logits[r,v] - lse[r]) - [v == target[r]]) * dloss[r]
//
// The columns may be one vocabulary shard that begins at column `first`. The forward pass then
// gives this shard's lse and its target logit, which is 0 if another shard has the target.
// cross_entropy_merge combines the shards in order:
//
//   lse[r] = log sum_k exp(part_lse[k][r])     loss[r] = lse[r] - sum_k part_logit[k][r]
//
// cross_entropy_both_passes computes loss and gradient in one call, if all columns are here and
// dloss is known. It writes a row's gradient while the logits are in cache, so memory is read once.
// On CPUs the bits equal those of the separate passes. With shards, the gradient must follow the
// merge.
//
// Columns from `vocabulary` to V are padding: they are ignored and their gradient is zero. A loss
// mask is a factor of dloss; a row with dloss = 0 gets a gradient of exactly 0.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct cross_entropy_forward {
  float* loss;                 ///< (R) written; or null
  float* lse;                  ///< (R) written; or null
  const T* logits;             ///< (R, V)
  const std::int32_t* target;  ///< (R) ids in the whole vocabulary
  std::int64_t R, V;
  std::int64_t vocabulary;        ///< at most V; 0: every column is padding, lse = -infinity
  std::int32_t first = 0;         ///< id of column 0
  float* target_logit = nullptr;  ///< (R) written, or null
};

template <class T>
struct cross_entropy_backward {
  T* dlogits;                  ///< (R, V) written; may be `logits` itself
  const T* logits;             ///< (R, V)
  const float* lse;            ///< (R)
  const std::int32_t* target;  ///< (R)
  const float* dloss;          ///< (R) gradient of the total loss with respect to loss[r]
  std::int64_t R, V;
  std::int64_t vocabulary;
  std::int32_t first = 0;
};

/// Forward and backward pass, row by row.
template <class T>
struct cross_entropy_both_passes {
  float* loss;                 ///< (R) written
  float* lse;                  ///< (R) written
  T* dlogits;                  ///< (R, V) written; may be `logits` itself
  const T* logits;             ///< (R, V)
  const std::int32_t* target;  ///< (R)
  const float* dloss;          ///< (R)
  std::int64_t R, V;
  std::int64_t vocabulary;
};

template <class T>
constexpr cross_entropy_forward<T> forward_of(const cross_entropy_both_passes<T>& op) {
  return {.loss = op.loss,
          .lse = op.lse,
          .logits = op.logits,
          .target = op.target,
          .R = op.R,
          .V = op.V,
          .vocabulary = op.vocabulary};
}
template <class T>
constexpr cross_entropy_backward<T> backward_of(const cross_entropy_both_passes<T>& op) {
  return {.dlogits = op.dlogits,
          .logits = op.logits,
          .lse = op.lse,
          .target = op.target,
          .dloss = op.dloss,
          .R = op.R,
          .V = op.V,
          .vocabulary = op.vocabulary};
}

template <class T>
struct cross_entropy_merge {
  T* loss;                     ///< (R) written
  T* lse;                      ///< (R) written
  const T* const* part_lse;    ///< (parts) host: arrays of R
  const T* const* part_logit;  ///< (parts) host: arrays of R
  std::int64_t parts;
  std::int64_t R;
};

template <class T>
constexpr std::int64_t flops(const cross_entropy_forward<T>& op) {
  return 4 * op.R * op.vocabulary;
}
template <class T>
constexpr std::int64_t flops(const cross_entropy_backward<T>& op) {
  return 4 * op.R * op.vocabulary;
}
template <class T>
constexpr std::int64_t bytes_moved(const cross_entropy_forward<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.vocabulary + 12 * op.R;
}
template <class T>
constexpr std::int64_t bytes_moved(const cross_entropy_backward<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * (op.vocabulary + op.V) + 12 * op.R;
}

template <class T>
constexpr std::int64_t flops(const cross_entropy_both_passes<T>& op) {
  return flops(forward_of(op)) + flops(backward_of(op));
}
template <class T>
constexpr std::int64_t bytes_moved(const cross_entropy_both_passes<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * (op.vocabulary + op.V) + 16 * op.R;
}

template <class T>
constexpr std::int64_t flops(const cross_entropy_merge<T>& op) {
  return 4 * op.R * op.parts;
}
template <class T>
constexpr std::int64_t bytes_moved(const cross_entropy_merge<T>& op) {
  return std::int64_t{sizeof(T)} * 2 * op.R * (op.parts + 1);
}

}  // namespace troupe::kernels
