// Scalar functions that several operations share, and their derivatives, in double.

#pragma once

#include "kernels/op/kinds.hpp"

#include <cmath>
#include <numbers>

namespace troupe::kernels::reference {

/// sqrt(2 / pi) * (x + 0.044715 x^3)
inline double gelu_argument(double x) {
  return std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * x * x * x);
}

inline double gelu_tanh(double x) {
  return x / 2 * (1 + std::tanh(gelu_argument(x)));
}

inline double gelu_tanh_slope(double x) {
  const double t = std::tanh(gelu_argument(x));
  const double argument_slope = std::sqrt(2 * std::numbers::inv_pi) * (1 + 3 * 0.044715 * x * x);
  return (1 + t) / 2 + x / 2 * (1 - t * t) * argument_slope;
}

inline double gelu_erf(double x) {
  return x / 2 * (1 + std::erf(x / std::numbers::sqrt2));
}

inline double gelu_erf_slope(double x) {
  const double density = std::exp(-x * x / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return (1 + std::erf(x / std::numbers::sqrt2)) / 2 + x * density;
}

/// NaN stays NaN, as in all of them.
inline double squared_relu(double x) {
  return x <= 0 ? 0 : x * x;
}

inline double squared_relu_slope(double x) {
  return x <= 0 ? 0 : 2 * x;
}

inline double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

inline double silu(double x) {
  return x * sigmoid(x);
}

inline double silu_slope(double x) {
  const double s = sigmoid(x);
  return s * (1 + x * (1 - s));
}

inline double relu(double x) {
  return x <= 0 ? 0 : x;
}

inline double relu_slope(double x) {
  return x > 0 ? 1 : x <= 0 ? 0 : x;
}

inline double tanh(double x) {
  return std::tanh(x);
}

inline double tanh_slope(double x) {
  const double c = std::cosh(x);
  return 1 / (c * c);
}

inline double quick_gelu(double x) {
  return x * sigmoid(1.702 * x);
}

inline double quick_gelu_slope(double x) {
  const double s = sigmoid(1.702 * x);
  return s * (1 + 1.702 * x * (1 - s));
}

#define TROUPE_VALUE(name) \
  case activation::name:   \
    return name(x);
#define TROUPE_SLOPE(name) \
  case activation::name:   \
    return name##_slope(x);

inline double activated(activation kind, double x) {
  switch (kind) { TROUPE_EVERY_ACTIVATION(TROUPE_VALUE) }
  return 0;
}

inline double activation_slope(activation kind, double x) {
  switch (kind) { TROUPE_EVERY_ACTIVATION(TROUPE_SLOPE) }
  return 0;
}

#undef TROUPE_VALUE
#undef TROUPE_SLOPE

}  // namespace troupe::kernels::reference
