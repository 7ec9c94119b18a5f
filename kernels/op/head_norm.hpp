// Normalisation of each head of queries or keys (QK norm), in a fused product.
//
//   as norm.hpp, over the D elements of each head; gain and bias (D) are shared by all heads
//
// Henry et al.: "Query-Key Normalization for Transformers", 2020. The heads lie in groups,
// Megatron's fused layout [q .. q k v]: of each group `heads` adjacent ones, from the pointer on.
// What lies between them is neither read nor written.

#pragma once

#include "kernels/op/norm.hpp"

namespace troupe::kernels {

/// Which heads; the same strides for every array of heads.
struct head_norm_shape {
  std::int64_t R;           ///< rows
  std::int64_t G;           ///< groups
  std::int64_t heads;       ///< of a group
  std::int64_t D;           ///< head size
  std::int64_t row, group;  ///< strides, in elements
  float eps;
  normalization kind;
  float gain_offset = 0;
};

template <class T>
struct head_norm_forward {
  T* y;           ///< heads, written; may be `x` when nobody goes back
  float* mean;    ///< (R, G, heads) written, 0 for rms; null: not wanted
  float* rstd;    ///< (R, G, heads) written; null: not wanted
  const T* x;     ///< heads
  const T* gain;  ///< (D)
  const T* bias;  ///< (D), null for rms
  head_norm_shape shape;
};

template <class T>
struct head_norm_backward_input {
  T* dx;              ///< heads, written; may be `dy`
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
  bool gain_accumulates = true;  ///< else dgain is written, whatever was there
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
