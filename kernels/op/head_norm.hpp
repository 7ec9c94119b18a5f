// Normalisation of each query or key head (QK norm) in a fused product.
//
// The formulas are those of norm.hpp, over the D elements of each head. All heads share gain and
// bias (D). The heads are in groups, in Megatron's fused layout [q .. q k v]. Each group has
// `heads` adjacent heads, counted from the given pointer; the elements between them are untouched.
//
// Henry et al.: "Query-Key Normalization for Transformers", 2020.

#pragma once

#include "kernels/op/norm.hpp"

namespace troupe::kernels {

/// Selects the heads; every array of heads has the same strides.
struct head_norm_shape {
  std::int64_t R;           ///< rows
  std::int64_t G;           ///< groups
  std::int64_t heads;       ///< heads per group
  std::int64_t D;           ///< head size
  std::int64_t row, group;  ///< strides, in elements
  float eps;
  normalization kind;
  float gain_offset = 0;
};

template <class T>
struct head_norm_forward {
  T* y;           ///< heads, written; may alias `x` if there is no backward pass
  float* mean;    ///< (R, G, heads) written, 0 for rms; or null
  float* rstd;    ///< (R, G, heads) written; or null
  const T* x;     ///< heads
  const T* gain;  ///< (D)
  const T* bias;  ///< (D), null for rms
  head_norm_shape shape;
};

template <class T>
struct head_norm_backward_input {
  T* dx;              ///< heads, written; may alias `dy`
  const T* dy;        ///< heads
  const T* x;         ///< heads
  const T* gain;      ///< (D)
  const float* mean;  ///< (R, G, heads)
  const float* rstd;  ///< (R, G, heads)
  head_norm_shape shape;
};

template <class T>
struct head_norm_backward_weight {
  accumulator<T>* dgain;  ///< (D) accumulated, or written
  accumulator<T>* dbias;  ///< (D) accumulated, or written; null for rms
  const T* dy;            ///< heads
  const T* x;             ///< heads
  const float* mean;      ///< (R, G, heads)
  const float* rstd;      ///< (R, G, heads)
  head_norm_shape shape;
  bool gain_accumulates = true;  ///< false: dgain is overwritten
  bool bias_accumulates = true;
};

template <class T>
constexpr std::int64_t head_norm_elements(const T& op) {
  return op.shape.R * op.shape.G * op.shape.heads * op.shape.D;
}
template <class T>
constexpr std::int64_t flops(const head_norm_forward<T>& op) {
  return head_norm_elements(op) * (op.shape.kind == normalization::layer ? 7 : 4);
}
template <class T>
constexpr std::int64_t flops(const head_norm_backward_input<T>& op) {
  return head_norm_elements(op) * (op.shape.kind == normalization::layer ? 9 : 7);
}
template <class T>
constexpr std::int64_t flops(const head_norm_backward_weight<T>& op) {
  return head_norm_elements(op) * (op.shape.kind == normalization::layer ? 5 : 3);
}
template <class T>
constexpr std::int64_t bytes_moved(const head_norm_forward<T>& op) {
  return std::int64_t{sizeof(T)} * 2 * head_norm_elements(op);
}
template <class T>
constexpr std::int64_t bytes_moved(const head_norm_backward_input<T>& op) {
  return std::int64_t{sizeof(T)} * 3 * head_norm_elements(op);
}
template <class T>
constexpr std::int64_t bytes_moved(const head_norm_backward_weight<T>& op) {
  return std::int64_t{sizeof(T)} * 2 * head_norm_elements(op);
}

}  // namespace troupe::kernels
