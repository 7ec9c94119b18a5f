// What a layer's operations let a model choose among: for those who choose and compute nothing. The
// formulas are in the header of each family.

#pragma once

#include <cstdint>

namespace troupe::kernels {

/// activation.hpp
enum class activation : std::uint8_t { gelu_tanh, gelu_erf, swiglu, squared_relu };

/// Width of the input for an output of width 1.
constexpr std::int64_t fan_in(activation kind) {
  return kind == activation::swiglu ? 2 : 1;
}

/// norm.hpp
enum class normalization : std::uint8_t { layer, rms };

/// linear.hpp: what a product does with its result before it is written.
enum class epilogue : std::uint8_t { none, gelu_tanh, gelu_erf, squared_relu };

/// The operation that an epilogue other than `none` is.
constexpr activation activation_of(epilogue x) {
  switch (x) {
    case epilogue::gelu_erf:
      return activation::gelu_erf;
    case epilogue::squared_relu:
      return activation::squared_relu;
    case epilogue::gelu_tanh:
    case epilogue::none:
      break;
  }
  return activation::gelu_tanh;
}

}  // namespace troupe::kernels
