// Every operation, once: the backends instantiate their templates from this list, so that an
// operation that is added here and not there does not link.

#pragma once

#include "kernels/backend/backend.hpp"
#include "kernels/op/count.hpp"

// X is a macro of one argument, the class template of an operation.
#define TROUPE_EVERY_OP(X)  \
  TROUPE_EVERY_DEVICE_OP(X) \
  X(sample_token)

// Those that run on a device.
#define TROUPE_EVERY_DEVICE_OP(X) \
  X(linear_forward)               \
  X(linear_backward_input)        \
  X(linear_backward_weight)       \
  X(attention_forward)            \
  X(attention_backward)           \
  X(bias_backward)                \
  X(norm_forward)                 \
  X(norm_backward_input)          \
  X(norm_backward_weight)         \
  X(head_norm_forward)            \
  X(head_norm_backward_input)     \
  X(head_norm_backward_weight)    \
  X(activation_forward)           \
  X(activation_backward)          \
  X(rope)                         \
  X(embedding_forward)            \
  X(embedding_backward)           \
  X(cross_entropy_forward)        \
  X(cross_entropy_backward)       \
  X(cross_entropy_merge)          \
  X(masked_loss_forward)          \
  X(masked_loss_backward)         \
  X(dropout_forward)              \
  X(dropout_backward)             \
  X(add)                          \
  X(ordered_sum)                  \
  X(square_norm)                  \
  X(square_norms)                 \
  X(count_zeros)                  \
  X(fingerprint)                  \
  X(cache_rows)                   \
  X(adamw)                        \
  X(adamw_pieces)

// The same, of those that exist in bf16 and f16 too: what a layer's activations and parameters pass
// through.
#define TROUPE_EVERY_NARROW_OP(X) \
  X(linear_forward)               \
  X(linear_backward_input)        \
  X(linear_backward_weight)       \
  X(bias_backward)                \
  X(attention_forward)            \
  X(attention_backward)           \
  X(norm_forward)                 \
  X(norm_backward_input)          \
  X(norm_backward_weight)         \
  X(head_norm_forward)            \
  X(head_norm_backward_input)     \
  X(head_norm_backward_weight)    \
  X(activation_forward)           \
  X(activation_backward)          \
  X(rope)                         \
  X(embedding_forward)            \
  X(embedding_backward)           \
  X(cross_entropy_forward)        \
  X(cross_entropy_backward)       \
  X(dropout_forward)              \
  X(dropout_backward)             \
  X(add)                          \
  X(ordered_sum)                  \
  X(cache_rows)                   \
  X(narrow)                       \
  X(widen)
