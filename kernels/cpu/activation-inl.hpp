// Vectorised activations (kernels/op/activation.hpp) and their derivatives.
//
// Compiled once per instruction set, like vector-inl.hpp.

#if defined(TROUPE_KERNELS_CPU_ACTIVATION_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_ACTIVATION_INL
#undef TROUPE_KERNELS_CPU_ACTIVATION_INL
#else
#define TROUPE_KERNELS_CPU_ACTIVATION_INL
#endif

#include "kernels/cpu/vector-inl.hpp"
#include "kernels/op/kinds.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

// tanh(u) = 2 sigmoid(2u) - 1 turns gelu_tanh into x sigmoid(2u): no cancellation, one division.
constexpr float twice_sqrt_2_over_pi = 1.59576912f;
constexpr float cubic = 0.044715f;

HWY_INLINE vec gelu_tanh_gate(vec x, vec x2, vec& rest) {
  const vec inner = hn::MulAdd(hn::Mul(x2, x), hn::Set(d, cubic), x);
  return sigmoid(hn::Mul(inner, hn::Set(d, twice_sqrt_2_over_pi)), rest);
}

struct gelu_tanh {
  static HWY_INLINE vec value(vec x) {
    vec rest;
    return hn::Mul(x, gelu_tanh_gate(x, hn::Mul(x, x), rest));
  }

  static HWY_INLINE vec slope(vec x) {
    const vec x2 = hn::Mul(x, x);
    vec rest;
    const vec s = gelu_tanh_gate(x, x2, rest);
    const vec inner = hn::MulAdd(
        x2, hn::Set(d, 3 * cubic * twice_sqrt_2_over_pi), hn::Set(d, twice_sqrt_2_over_pi));
    return hn::MulAdd(hn::Mul(x, inner), hn::Mul(s, rest), s);
  }
};

struct gelu_erf {
  static HWY_INLINE vec value(vec x) {
    vec bell;
    return hn::Mul(x, normal_distribution(x, bell));
  }

  static HWY_INLINE vec slope(vec x) {
    vec bell;
    const vec below = normal_distribution(x, bell);
    return hn::MulAdd(hn::Mul(x, bell), hn::Set(d, 0.398942280f), below);  // 1 / sqrt(2 pi)
  }
};

struct silu {
  static HWY_INLINE vec value(vec x) { return hn::Mul(x, sigmoid(x)); }

  static HWY_INLINE vec slope(vec x) {
    vec rest;
    const vec s = sigmoid(x, rest);
    return hn::MulAdd(hn::Mul(x, s), rest, s);
  }
};

struct relu {
  // An x86 maximum would hide NaN.
  static HWY_INLINE vec value(vec x) { return hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x); }

  static HWY_INLINE vec slope(vec x) {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1.0f), value(x));
  }
};

struct squared_relu {
  static HWY_INLINE vec value(vec x) {
    const vec above = relu::value(x);
    return hn::Mul(above, above);
  }

  static HWY_INLINE vec slope(vec x) {
    const vec above = relu::value(x);
    return hn::Add(above, above);
  }
};

struct tanh {
  static HWY_INLINE vec twice_negative(vec x) { return hn::Mul(hn::Abs(x), hn::Set(d, -2.0f)); }

  /// 1 - e would cancel near 0. There it is x + x^3 P(x^2), with coefficients fitted here and a
  /// relative error below 7e-8.
  static HWY_INLINE vec value(vec x) {
    const vec one = hn::Set(d, 1.0f), x2 = hn::Mul(x, x);
    vec p = hn::Set(d, -0.00626436481f);
    p = hn::MulAdd(p, x2, hn::Set(d, 0.0210641343f));
    p = hn::MulAdd(p, x2, hn::Set(d, -0.0538502969f));
    p = hn::MulAdd(p, x2, hn::Set(d, 0.133325651f));
    p = hn::MulAdd(p, x2, hn::Set(d, -0.333333164f));
    const vec near = hn::MulAdd(hn::Mul(x, x2), p, x);
    const vec e = exp(twice_negative(x));
    const vec far = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
    return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0.55f)), near, far);
  }

  /// 4 e / (1 + e)^2, where 1 - tanh(x)^2 would cancel.
  static HWY_INLINE vec slope(vec x) {
    vec rest;
    const vec s = sigmoid(twice_negative(x), rest);
    return hn::Mul(hn::Set(d, 4.0f), hn::Mul(s, rest));
  }
};

struct quick_gelu {
  static constexpr float steepness = 1.702f;

  static HWY_INLINE vec value(vec x) {
    return hn::Mul(x, sigmoid(hn::Mul(x, hn::Set(d, steepness))));
  }

  static HWY_INLINE vec slope(vec x) {
    const vec u = hn::Mul(x, hn::Set(d, steepness));
    vec rest;
    const vec s = sigmoid(u, rest);
    return hn::MulAdd(hn::Mul(u, s), rest, s);
  }
};

#define TROUPE_USE(name) \
  case activation::name: \
    return use(name());

/// Calls `use` with the activation's value and slope functions.
template <class Use>
HWY_INLINE void with_functions_of(activation kind, const Use& use) {
  switch (kind) { TROUPE_EVERY_ACTIVATION(TROUPE_USE) }
}

#undef TROUPE_USE

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
