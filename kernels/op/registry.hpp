// The registry of operations: name, element types and memory of each. Backends declare and dispatch
// what is listed here, so an operation that a backend lacks fails to link. The family's header has
// its arguments, formula, flops() and bytes_moved(); every_op.hpp includes all families.
//
// Code that only passes operations on, such as a stream, needs just the handle at the end.

#pragma once

#include <cstdint>
#include <string_view>

namespace troupe::kernels {

struct bf16;
struct f16;

enum class element_type : std::uint8_t { f32, f64, bf16, f16 };

/// Element types of an operation.
enum class operation_types : std::uint8_t {
  layer,  ///< all types: activations and parameters of a layer
  state,  ///< float and double: losses, sums and optimizer state
  cast,   ///< bf16 and f16, each from or to float
};

/// Memory that holds an operation's arrays.
enum class operation_memory : std::uint8_t {
  backend,  ///< the backend's memory
  host,     ///< host memory on every backend; the cpu backend runs it for cuda, too
};

// X(operation, operation_types, operation_memory)
#define TROUPE_EVERY_OPERATION(X)                   \
  X(activation_forward, layer, backend)             \
  X(activation_backward, layer, backend)            \
  X(adamw, state, backend)                          \
  X(adamw_pieces, state, backend)                   \
  X(attention_forward, layer, backend)              \
  X(attention_backward, layer, backend)             \
  X(cache_rows, layer, backend)                     \
  X(bias_backward, layer, backend)                  \
  X(narrow, cast, backend)                          \
  X(widen, cast, backend)                           \
  X(count_zeros, state, backend)                    \
  X(cross_entropy_forward, layer, backend)          \
  X(cross_entropy_backward, layer, backend)         \
  X(cross_entropy_both_passes, layer, backend)      \
  X(cross_entropy_merge, state, backend)            \
  X(dropout_forward, layer, backend)                \
  X(dropout_backward, layer, backend)               \
  X(embedding_forward, layer, backend)              \
  X(embedding_backward, layer, backend)             \
  X(expert_bias_step, state, backend)               \
  X(expert_quantile, state, backend)                \
  X(fingerprint, state, backend)                    \
  X(grouped_linear_forward, layer, backend)         \
  X(grouped_linear_backward_input, layer, backend)  \
  X(grouped_linear_backward_weight, layer, backend) \
  X(copy_heads, layer, backend)                     \
  X(sum_heads, layer, backend)                      \
  X(head_norm_forward, layer, backend)              \
  X(head_norm_backward_input, layer, backend)       \
  X(head_norm_backward_weight, layer, backend)      \
  X(jitter, state, backend)                         \
  X(linear_forward, layer, backend)                 \
  X(linear_backward_input, layer, backend)          \
  X(linear_backward_weight, layer, backend)         \
  X(masked_loss_forward, state, backend)            \
  X(masked_loss_backward, state, backend)           \
  X(momentum_step, state, backend)                  \
  X(norm_forward, layer, backend)                   \
  X(norm_backward_input, layer, backend)            \
  X(norm_backward_weight, layer, backend)           \
  X(permute, layer, backend)                        \
  X(relative_bias_forward, layer, backend)          \
  X(relative_bias_backward, layer, backend)         \
  X(rope, layer, backend)                           \
  X(route, state, backend)                          \
  X(route_backward, state, backend)                 \
  X(route_losses, state, backend)                   \
  X(route_sums, state, backend)                     \
  X(sample_token, state, host)                      \
  X(scaled_sum, state, backend)                     \
  X(sinkhorn, state, backend)                       \
  X(add, layer, backend)                            \
  X(ordered_sum, layer, backend)                    \
  X(square_norm, state, backend)                    \
  X(square_norms, state, backend)                   \
  X(unpermute, layer, backend)                      \
  X(unpermute_backward_weight, layer, backend)

enum class operation_name : std::uint8_t {
#define TROUPE_ENUMERATE(op, types, memory) op,
  TROUPE_EVERY_OPERATION(TROUPE_ENUMERATE)
#undef TROUPE_ENUMERATE
      unknown
};

#define TROUPE_DECLARE(op, types, memory) \
  template <class T>                      \
  struct op;
TROUPE_EVERY_OPERATION(TROUPE_DECLARE)
#undef TROUPE_DECLARE

/// The name of an operation's class template.
template <template <class> class Op>
inline constexpr operation_name name_of = operation_name::unknown;
#define TROUPE_NAME(op, types, memory) \
  template <>                          \
  inline constexpr operation_name name_of<op> = operation_name::op;
TROUPE_EVERY_OPERATION(TROUPE_NAME)
#undef TROUPE_NAME

template <class T>
inline constexpr element_type element_of = element_type{255};
template <>
inline constexpr element_type element_of<float> = element_type::f32;
template <>
inline constexpr element_type element_of<double> = element_type::f64;
template <>
inline constexpr element_type element_of<bf16> = element_type::bf16;
template <>
inline constexpr element_type element_of<f16> = element_type::f16;

constexpr std::string_view text(operation_name name) {
  switch (name) {
#define TROUPE_TEXT(op, types, memory) \
  case operation_name::op:             \
    return #op;
    TROUPE_EVERY_OPERATION(TROUPE_TEXT)
#undef TROUPE_TEXT
    case operation_name::unknown:
      break;
  }
  return "unknown";
}

constexpr std::string_view text(element_type type) {
  constexpr std::string_view all[] = {"float", "double", "bf16", "f16"};
  return all[std::size_t(type)];
}

constexpr bool exists(operation_types types, element_type in) {
  const bool narrow = in == element_type::bf16 || in == element_type::f16;
  return types == operation_types::layer || narrow == (types == operation_types::cast);
}

constexpr bool exists(operation_name name, element_type in) {
  switch (name) {
#define TROUPE_EXISTS(op, types, memory) \
  case operation_name::op:               \
    return exists(operation_types::types, in);
    TROUPE_EVERY_OPERATION(TROUPE_EXISTS)
#undef TROUPE_EXISTS
    case operation_name::unknown:
      break;
  }
  return false;
}

constexpr operation_memory memory_of(operation_name name) {
  switch (name) {
#define TROUPE_MEMORY(op, types, memory) \
  case operation_name::op:               \
    return operation_memory::memory;
    TROUPE_EVERY_OPERATION(TROUPE_MEMORY)
#undef TROUPE_MEMORY
    case operation_name::unknown:
      break;
  }
  return operation_memory::backend;
}

/// Handle of an operation: its name, type and arguments. The arguments must outlive it.
struct operation {
  operation_name name;
  element_type type;
  const void* arguments;  ///< an Op<T>

  /// Implicit, so that functions that take an operation accept every Op<T>.
  template <template <class> class Op, class T>
  requires(exists(name_of<Op>, element_of<T>)) operation(const Op<T>& op)
      : name(name_of<Op>), type(element_of<T>), arguments(&op) {}
};

}  // namespace troupe::kernels
