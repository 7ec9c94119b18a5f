// The AdamW update. For each element, with g = gradient * gradient_scale (clipping):
//
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g^2
//   x = x - rate * weight_decay * x - rate * (m / correction1) / (sqrt(v / correction2) + eps)
//
// correction_i = 1 - beta_i^t for step t = 1, 2, ...; the caller computes it in double.
//
// Loshchilov, Hutter: "Decoupled Weight Decay Regularization", 2019.

#pragma once

#include "kernels/op/grain.hpp"

namespace troupe::kernels {

/// Arrays with the old parameters and moments; either all three are set or none. If null, the
/// update happens in place. Each source array is either the destination array itself or overlaps no
/// destination. Both ways give the same bits.
template <class T>
struct adamw_source {
  const T* x = nullptr;  ///< (n)
  const T* m = nullptr;  ///< (n)
  const T* v = nullptr;  ///< (n)
};

template <class T>
struct adamw {
  T* x;         ///< (n) parameters, written; the old values are here unless `from` is set
  T* m;         ///< (n) first moment, likewise
  T* v;         ///< (n) second moment, likewise
  const T* dx;  ///< (n) gradient
  std::int64_t n;
  float gradient_scale = 1;
  float rate;
  float beta1, beta2, eps;
  float weight_decay;
  float correction1, correction2;
  void* rounded = nullptr;  ///< (n) new parameters in `rounded_to`, written; or null
  narrow_type rounded_to = narrow_type::bf16;
  adamw_source<T> from = {};
};

/// AdamW on many arrays at once; all share every setting but the weight decay. A device updates
/// dozens of arrays per launch. Optionally computes the fingerprints (fingerprint.hpp) of the
/// results in the same pass.
template <class T>
struct adamw_pieces {
  struct piece {
    T* x;           ///< (n) parameters, as in adamw
    T* m;           ///< (n) first moment, as in adamw
    T* v;           ///< (n) second moment, as in adamw
    const T* dx;    ///< (n) gradient
    void* rounded;  ///< (n) new parameters in `rounded_to`, written; or null
    std::int64_t n;
    float weight_decay;
    /// (3, grains_in(n, grain)) fingerprint keys of x, m and v; read only if `fingerprints` is set
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
  std::uint64_t* fingerprints = nullptr;  ///< (count, 3, 2) of x, m and v, written; or null
  std::int64_t grain = 0;                 ///< in elements; at least 1 if `fingerprints` is set
};

/// The source arrays of an update: `from` if it is set, else x, m and v.
template <class T>
constexpr adamw_source<T> source_of(const adamw_source<T>& from,
                                    const T* x,
                                    const T* m,
                                    const T* v) {
  return from.x != nullptr ? from : adamw_source<T>{x, m, v};
}

/// Piece i as a single-array operation.
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
