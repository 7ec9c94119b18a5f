// What PyTorch would need on one device for the same model and micro-batch: an estimate, by a
// formula. What PyTorch 2.15 had on a CPU beside parameters and moments is within 1 % of it, but
// for eager RMS norms, which a CPU composes of several operations: 8 % more
// (tests/bench/peer_memory.py, docs/benchmarks/2026-11-21-gpu.md). Nothing was measured on a
// device. It knows nothing of PyTorch's allocator, of CUDA's context (about half a GB) or of
// cuBLAS's workspace.
//
// PyTorch as a good user has it: AdamW (fused), parameters in fp32, bf16 or fp16 by autocast,
// gradients set to none after each step, flash attention, no recomputation of layers;
// DistributedDataParallel where there are several replicas. P parameters with the padding of the
// vocabulary, n tokens of a micro-batch, C hidden, Q and K the widths of all queries and of all
// keys, H heads, F feed-forward, V the padded vocabulary, s bytes of an activation in products (2
// by autocast, else 4), t bytes of a norm's statistics (8 with a mean, else 4).
//
//   parameters     4 P
//   gradients      4 P
//   moments        8 P
//   buckets        4 P, with several replicas: gradients are copied to where they are summed
//
// Eager, bytes of what autograd saves:
//
//   cast           s for each weight and bias of a product: autocast's copies, which the
//                  backward pass wants again; none in fp32
//   a layer        n (2 (4 C + t)         both norms: their input, of the residual stream in fp32
//                     + 2 s C             what they hand to products
//                     + s (Q + 2 K)       queries, keys, values
//                     + s (Q + K)         with rope: queries and keys before it, which lie in one
//                                         array with the values
//                     + s Q + 4 H         the result of attention, and its log-sum-exp
//                     + s m F             m = 2: into and out of the activation; gated 4: gate,
//                                         up, the gate's activation, their product
//                     + 2 C)              masks, with dropout
//   around them    n (16                  token and label, of 8 bytes
//                     + 4 C + t + s C     the last norm, and what it hands to the head
//                     + C)                mask of the embedding, with dropout
//   loss           12 n V                 in fp32: log-softmax, its gradient, and that of the
//                                         logits
//
// Compiled, bytes of what the partition of forward and backward pass keeps by default: it computes
// again what is element by element, but nothing that a product of the backward pass reads, and not
// the residual stream, whose chain of additions would be too long.
//
//   cast           as eager
//   a layer        n (2 (4 C + t)         both norms: their input, or it normalized, in fp32
//                     + 2 s C             what they hand to products
//                     + s (Q + 2 K) + s (Q + K) with rope + s Q + 4 H      as eager
//                     + s (f + 1) F)      f = 1, gated 2: into the activation, and out of it
//   around them    n (16 + 4 C + t + s C) as eager
//   loss           n (s V + 4)            logits, in whose place their gradient comes, and a row's
//                                         log-sum-exp
//                  + s V C                the gradient of the head's weights, under autocast before
//                                         it is cast
//
// With dropout its masks are drawn again. The most is at the loss, when every layer is saved: in
// the first micro-batch of a step there are no gradients yet. It is no less than what the update
// has: gradients and no activations. Compiled, a backward pass hands out all gradients together at
// its end: in later micro-batches those of this one are there beside the sum of the others.

#pragma once

#include "runtime/trainer/job.hpp"

#include <cstdint>

namespace troupe::runtime {

enum class pytorch_mode : std::uint8_t { eager, compiled };

/// Bytes.
struct pytorch_memory {
  std::int64_t parameters = 0, gradients = 0, moments = 0, buckets = 0;
  std::int64_t cast = 0;         ///< narrow copies of weights
  std::int64_t activations = 0;  ///< of one micro-batch, but for the loss
  std::int64_t loss = 0;         ///< at most at once, from logits to the gradient of the head
  bool accumulates = false;      ///< several micro-batches a step: gradients are there at the loss
  bool together = false;         ///< gradients of a micro-batch come all at once

  friend bool operator==(const pytorch_memory&, const pytorch_memory&) = default;

  std::int64_t peak() const;
};

/// Whether the estimate is for such a layout: the whole model on each device, without own parts.
bool has_pytorch_estimate(const training_job& job);

/// Broken promise MEMORY-1 where there is none.
pytorch_memory pytorch_estimate(const training_job& job, pytorch_mode mode);

}  // namespace troupe::runtime
