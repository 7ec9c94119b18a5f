// Normalisation of each row: layer norm and RMS norm.
//
// With g = gain + gain_offset (Megatron's "+1p" stores gain - 1):
//
//   layer:  xh = (x - mean) * rstd,  rstd = 1 / sqrt(var + eps)     y = xh * g + bias
//   rms:    xh = x * rstd,           rstd = 1 / sqrt(mean(x^2) + eps)    y = xh * g
//
// With a residual, the input of the norm is the skip connection's sum, which is stored as well:
//
//   sum = x + residual, rounded         x in the formulas above is then this sum
//
// Backward pass, with h = dy * g:
//
//   I:  layer dx = rstd * (h - mean_c(h) - xh * mean_c(h * xh))     rms without the second term
//   W:  dgain += sum_r dy * xh     dbias += sum_r dy
//
// W without accumulation writes 0 + these sums: the same bits as accumulating into a cleared array.
//
// Ba, Kiros, Hinton: "Layer Normalization", 2016. Zhang, Sennrich: "Root Mean Square Layer
// Normalization", 2019.

#pragma once

#include "kernels/op/context.hpp"
#include "kernels/op/kinds.hpp"

namespace troupe::kernels {

template <class T>
struct norm_forward {
  T* y;           ///< (R, C) written
  float* mean;    ///< (R) written, 0 for rms; or null
  float* rstd;    ///< (R) written; or null
  const T* x;     ///< (R, C)
  const T* gain;  ///< (C)
  const T* bias;  ///< (C), null for rms
  std::int64_t R, C;
  float eps;
  normalization kind;
  float gain_offset = 0;
  const T* residual = nullptr;  ///< (R, C) or null: normalises x alone
  T* sum = nullptr;  ///< (R, C) written if there is a residual; may alias `residual` or `x`
};

template <class T>
struct norm_backward_input {
  T* dx;              ///< (R, C) written
  const T* dy;        ///< (R, C)
  const T* x;         ///< (R, C)
  const T* gain;      ///< (C)
  const float* mean;  ///< (R)
  const float* rstd;  ///< (R)
  std::int64_t R, C;
  normalization kind;
  const T* residual = nullptr;  ///< (R, C) added to dx: gradient of the skip connection; or null
  float gain_offset = 0;
};

template <class T>
struct norm_backward_weight {
  accumulator<T>* dgain;  ///< (C) accumulated, or written
  accumulator<T>* dbias;  ///< (C) accumulated, or written; null for rms
  const T* dy;            ///< (R, C)
  const T* x;             ///< (R, C)
  const float* mean;      ///< (R)
  const float* rstd;      ///< (R)
  std::int64_t R, C;
  normalization kind;
  bool gain_accumulates = true;  ///< false: dgain is overwritten
  bool bias_accumulates = true;
};

/// Number of arrays of C sums that are read or written.
template <class Op>
constexpr std::int64_t sums_moved(const Op& op) {
  return (op.gain_accumulates ? 2 : 1) + (op.dbias ? (op.bias_accumulates ? 2 : 1) : 0);
}

template <class T>
constexpr std::int64_t flops(const norm_forward<T>& op) {
  return op.R * op.C * ((op.kind == normalization::layer ? 7 : 4) + (op.residual ? 1 : 0));
}
template <class T>
constexpr std::int64_t flops(const norm_backward_input<T>& op) {
  return op.R * op.C * (op.kind == normalization::layer ? 9 : 7);
}
template <class T>
constexpr std::int64_t flops(const norm_backward_weight<T>& op) {
  return op.R * op.C * (op.kind == normalization::layer ? 5 : 3);
}
template <class T>
constexpr std::int64_t bytes_moved(const norm_forward<T>& op) {
  return std::int64_t{sizeof(T)} * (op.R * op.C * (op.residual ? 4 : 2) + op.C * (op.bias ? 2 : 1))
         + 8 * op.R;
}
template <class T>
constexpr std::int64_t bytes_moved(const norm_backward_input<T>& op) {
  return std::int64_t{sizeof(T)} * (op.R * op.C * (op.residual ? 4 : 3) + op.C) + 8 * op.R;
}
template <class T>
constexpr std::int64_t bytes_moved(const norm_backward_weight<T>& op) {
  return std::int64_t{sizeof(T)} * 2 * op.R * op.C + 8 * op.R
         + std::int64_t{sizeof(accumulator<T>)} * op.C * sums_moved(op);
}

}  // namespace troupe::kernels
