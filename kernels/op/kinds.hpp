// What a layer's operations let a model choose among: for those who choose and compute nothing. The
// formulas are in the header of each family.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe::kernels {

/// activation.hpp
enum class activation : std::uint8_t { gelu_tanh, gelu_erf, swiglu, squared_relu };
inline constexpr activation every_activation[]
    = {activation::gelu_tanh, activation::gelu_erf, activation::swiglu, activation::squared_relu};

/// As a model's configuration names it.
constexpr std::string_view text(activation kind) {
  constexpr std::string_view names[] = {"gelu_tanh", "gelu_erf", "swiglu", "squared_relu"};
  return names[std::size_t(kind)];
}

/// Width of the input for an output of width 1.
constexpr std::int64_t fan_in(activation kind) {
  return kind == activation::swiglu ? 2 : 1;
}

/// norm.hpp
enum class normalization : std::uint8_t { layer, rms };

/// linear.hpp: what a product does with its result before it is written.
enum class epilogue : std::uint8_t { none, gelu_tanh, gelu_erf, squared_relu };
inline constexpr epilogue every_epilogue[]
    = {epilogue::none, epilogue::gelu_tanh, epilogue::gelu_erf, epilogue::squared_relu};

/// What a product can do of an activation: none of gated ones, whose input is wider than their
/// output.
constexpr epilogue epilogue_of(activation kind) {
  switch (kind) {
    case activation::gelu_tanh:
      return epilogue::gelu_tanh;
    case activation::gelu_erf:
      return epilogue::gelu_erf;
    case activation::squared_relu:
      return epilogue::squared_relu;
    case activation::swiglu:
      break;
  }
  return epilogue::none;
}

/// The operation that an epilogue other than `none` is.
constexpr activation activation_of(epilogue x) {
  for (const activation kind : every_activation)
    if (epilogue_of(kind) == x && x != epilogue::none)
      return kind;
  return activation::gelu_tanh;
}

}  // namespace troupe::kernels
