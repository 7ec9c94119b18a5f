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

/// NaN stays NaN.
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

/// The activation of one number; for swiglu, silu of the gate.
inline double activated(activation kind, double x) {
  switch (kind) {
    case activation::gelu_tanh:
      return gelu_tanh(x);
    case activation::gelu_erf:
      return gelu_erf(x);
    case activation::squared_relu:
      return squared_relu(x);
    case activation::swiglu:
      break;
  }
  return silu(x);
}

inline double activation_slope(activation kind, double x) {
  switch (kind) {
    case activation::gelu_tanh:
      return gelu_tanh_slope(x);
    case activation::gelu_erf:
      return gelu_erf_slope(x);
    case activation::squared_relu:
      return squared_relu_slope(x);
    case activation::swiglu:
      break;
  }
  return silu_slope(x);
}

}  // namespace troupe::kernels::reference
