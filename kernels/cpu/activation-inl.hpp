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

struct squared_relu {
  // An x86 maximum would hide NaN.
  static HWY_INLINE vec positive(vec x) { return hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x); }

  static HWY_INLINE vec value(vec x) {
    const vec above = positive(x);
    return hn::Mul(above, above);
  }

  static HWY_INLINE vec slope(vec x) {
    const vec above = positive(x);
    return hn::Add(above, above);
  }
};

/// Calls `use` with the activation's value and slope functions; does nothing for swiglu.
template <class Use>
HWY_INLINE void with_functions_of(activation kind, const Use& use) {
  switch (kind) {
    case activation::gelu_tanh:
      return use(gelu_tanh());
    case activation::gelu_erf:
      return use(gelu_erf());
    case activation::squared_relu:
      return use(squared_relu());
    case activation::swiglu:
      return;
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
