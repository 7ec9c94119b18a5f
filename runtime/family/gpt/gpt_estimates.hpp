// Memory of a GPT in Megatron-LM and PyTorch, by formulas. runtime/forecast describes the memory of
// this program.
//
// Megatron-LM: Korthikanti et al.: "Reducing Activation Recomputation in Large Transformer Models",
// 2022, table 2; megatron/training/theoretical_memory_usage.py. As in the source, biases are not
// counted, activations assume query matrices as wide as the residual stream, and only selective
// recomputation with sequence parallelism has its own formula.
//
// PyTorch, on one device for the same model and micro-batch:
// Measurements with PyTorch 2.15 on a CPU, without parameters and moments, agree within 1 %. The
// exception is eager RMS norm, which a CPU composes of several operations: 8 % more
// (tests/bench/peer_memory.py, docs/benchmarks/2026-11-21-gpu.md). Not measured on a device. Does
// not include PyTorch's allocator, the CUDA context (about half a GB) and cuBLAS's workspace.
//
// Assumes common good practice: AdamW (fused), parameters in fp32, bf16 or fp16 by autocast,
// gradients set to None after each step, flash attention, no recomputation of layers, and
// DistributedDataParallel for several replicas. Symbols: P parameters with the padding of the
// vocabulary, n tokens per micro-batch, C hidden, Q and K widths of all queries and of all keys, H
// heads, F feed-forward, V padded vocabulary, s bytes per activation in products (2 by autocast,
// else 4), t bytes of a norm's statistics (8 with a mean, else 4).
//
//   parameters     4 P
//   gradients      4 P
//   moments        8 P
//   buckets        4 P, with several replicas: gradients are copied there for the all-reduce
//
// Eager mode, bytes that autograd saves:
//
//   cast           s for each weight and bias of a product: autocast's copies, for the backward
//                  pass; none in fp32
//   a layer        n (2 (4 C + t)         both norms: their input, the residual stream in fp32
//                     + 2 s C             the inputs of products
//                     + s (Q + 2 K)       queries, keys, values
//                     + s (Q + K)         with rope: queries and keys before it, in one array with
//                                         the values
//                     + s Q + 4 H         the result of attention, and its log-sum-exp
//                     + s m F             m = 2: input and output of the activation; gated 4: gate,
//                                         up, the gate's activation, their product
//                     + 2 C)              masks, with dropout
//   around them    n (16                  token and label, 8 bytes each
//                     + 4 C + t + s C     the last norm, and the input of the head
//                     + C)                mask of the embedding, with dropout
//   loss           12 n V                 in fp32: log-softmax, its gradient, and the gradient of
//                                         the logits
//
// Compiled mode, bytes that the partitioner of forward and backward pass saves by default. It
// recomputes element-wise operations. It saves the inputs of products in the backward pass, and the
// residual stream, since that chain of additions would be too long.
//
//   cast           as eager
//   a layer        n (2 (4 C + t)         both norms: their input, or the normalized input, in fp32
//                     + 2 s C             the inputs of products
//                     + s (Q + 2 K) + s (Q + K) with rope + s Q + 4 H      as eager
//                     + s (f + 1) F)      f = 1, gated 2: input and output of the activation
//   around them    n (16 + 4 C + t + s C) as eager
//   loss           n (s V + 4)            logits, whose memory their gradient reuses, and the
//                                         log-sum-exp of each row
//                  + s V C                the gradient of the head's weights, before autocast's
//                                         cast
//
// Compiled mode draws dropout masks again. The peak is at the loss, when the activations of all
// layers are saved; the first micro-batch of a step has no gradients yet. The update, with
// gradients and no activations, is a lower bound of the peak. A compiled backward pass returns all
// gradients at its end, so in later micro-batches they exist beside the accumulated sum.

#pragma once

#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/family/model_outline.hpp"
#include "runtime/family/peer_estimates.hpp"

namespace troupe::runtime {

theoretical_memory gpt_megatron_memory(const gpt_config& model, const job_outline& job);

/// `job` has the whole model on each device.
pytorch_memory gpt_pytorch_memory(const gpt_config& model,
                                  const job_outline& job,
                                  pytorch_mode mode);

/// The sizes of its operations. Troupe's kernels fuse a sum with its dropout, an activation with
/// its gate, and nothing else.
model_outline gpt_outline(const gpt_config& model);

}  // namespace troupe::runtime
