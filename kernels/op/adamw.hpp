// AdamW: Loshchilov, Hutter: "Decoupled Weight Decay Regularization", 2019. For each element, with
// g = gradient * gradient_scale (clipping):
//
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g^2
//   x = x - rate * weight_decay * x - rate * (m / correction1) / (sqrt(v / correction2) + eps)
//
// correction_i = 1 - beta_i^t for step t = 1, 2, ...; the caller computes it in double.

#pragma once

#include "kernels/op/grain.hpp"

namespace troupe::kernels {

/// Where the old parameters and moments are read. Null: where the new ones are written. All of them
/// or none; none of them overlaps what is written, or is the very array that its successor goes to.
/// The bits are the same.
template <class T>
struct adamw_source {
  const T* x = nullptr;  ///< (n)
  const T* m = nullptr;  ///< (n)
  const T* v = nullptr;  ///< (n)
};

template <class T>
struct adamw {
  T* x;         ///< (n) parameters, changed; written, where the old ones are elsewhere
  T* m;         ///< (n) first moment, the same
  T* v;         ///< (n) second moment, the same
  const T* dx;  ///< (n) gradient
  std::int64_t n;
  float gradient_scale = 1;
  float rate;
  float beta1, beta2, eps;
  float weight_decay;
  float correction1, correction2;
  void* rounded = nullptr;  ///< (n) of `rounded_to`, or null: the new parameters, rounded
  narrow_type rounded_to = narrow_type::bf16;
  adamw_source<T> from = {};
};

/// The same for many arrays at once, which share all but their weight decay: on a device one launch
/// takes dozens of them. Where it is wanted, also the fingerprints (fingerprint.hpp) of what they
/// have become, while it is near.
template <class T>
struct adamw_pieces {
  struct piece {
    T* x;           ///< (n) parameters, changed or written, as of adamw
    T* m;           ///< (n) first moment, the same
    T* v;           ///< (n) second moment, the same
    const T* dx;    ///< (n) gradient
    void* rounded;  ///< (n) of `rounded_to`, or null
    std::int64_t n;
    float weight_decay;
    /// (3, grains_in(n, grain)) of the fingerprints of x, m and v; unread where none are wanted
    const std::uint64_t* keys = nullptr;
    adamw_source<T> from = {};
  };
  const piece* pieces;  ///< (count) host
  std::int64_t count;
  narrow_type rounded_to = narrow_type::bf16;
  float gradient_scale = 1;
  float rate;
  float beta1, beta2, eps;
  float correction1, correction2;
  std::uint64_t* fingerprints = nullptr;  ///< (count, 3, 2) written: of x, m and v; or null
  std::int64_t grain = 0;                 ///< elements; at least 1 where there are fingerprints
};

/// With every array named, whether it is elsewhere or not.
template <class T>
constexpr adamw_source<T> source_of(const adamw_source<T>& from,
                                    const T* x,
                                    const T* m,
                                    const T* v) {
  return from.x != nullptr ? from : adamw_source<T>{x, m, v};
}

/// One of the pieces, as an operation.
template <class T>
constexpr adamw<T> piece_of(const adamw_pieces<T>& op, std::int64_t i) {
  const auto& p = op.pieces[i];
  return {.x = p.x,
          .m = p.m,
          .v = p.v,
          .dx = p.dx,
          .n = p.n,
          .gradient_scale = op.gradient_scale,
          .rate = op.rate,
          .beta1 = op.beta1,
          .beta2 = op.beta2,
          .eps = op.eps,
          .weight_decay = p.weight_decay,
          .correction1 = op.correction1,
          .correction2 = op.correction2,
          .rounded = p.rounded,
          .rounded_to = op.rounded_to,
          .from = p.from};
}

template <class T>
constexpr std::int64_t flops(const adamw<T>& op) {
  return 15 * op.n;
}
template <class T>
constexpr std::int64_t bytes_moved(const adamw<T>& op) {
  return std::int64_t{sizeof(T)} * 7 * op.n + (op.rounded ? 2 * op.n : 0);
}

template <class T>
constexpr std::int64_t flops(const adamw_pieces<T>& op) {
  return 15 * elements_of(op);
}
template <class T>
constexpr std::int64_t bytes_moved(const adamw_pieces<T>& op) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < op.count; ++i)
    sum += op.pieces[i].n * (std::int64_t{sizeof(T)} * 7 + (op.pieces[i].rounded ? 2 : 0));
  return sum;
}

}  // namespace troupe::kernels
