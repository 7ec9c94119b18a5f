// Variants of a layer's operations that a model can choose. This header has no kernel arguments;
// the formulas are in the header of each family.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe::kernels {

/// activation.hpp
enum class activation : std::uint8_t { gelu_tanh, gelu_erf, swiglu, squared_relu };
inline constexpr activation every_activation[]
    = {activation::gelu_tanh, activation::gelu_erf, activation::swiglu, activation::squared_relu};

/// The name in a model's configuration.
constexpr std::string_view text(activation kind) {
  constexpr std::string_view names[] = {"gelu_tanh", "gelu_erf", "swiglu", "squared_relu"};
  return names[std::size_t(kind)];
}

/// Input width per unit of output width.
constexpr std::int64_t fan_in(activation kind) {
  return kind == activation::swiglu ? 2 : 1;
}

/// norm.hpp
enum class normalization : std::uint8_t { layer, rms };

/// route.hpp
enum class route_score : std::uint8_t { softmax_of_chosen, softmax, sigmoid, sqrt_softplus };
inline constexpr route_score every_route_score[] = {route_score::softmax_of_chosen,
                                                    route_score::softmax,
                                                    route_score::sigmoid,
                                                    route_score::sqrt_softplus};

/// linear.hpp: the activation that a product applies to its result before writing it.
enum class epilogue : std::uint8_t { none, gelu_tanh, gelu_erf, squared_relu };
inline constexpr epilogue every_epilogue[]
    = {epilogue::none, epilogue::gelu_tanh, epilogue::gelu_erf, epilogue::squared_relu};

/// The epilogue of an activation, or `none` for gated ones: their input is wider than their output.
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

/// The activation of an epilogue other than `none`.
constexpr activation activation_of(epilogue x) {
  for (const activation kind : every_activation)
    if (epilogue_of(kind) == x && x != epilogue::none)
      return kind;
  return activation::gelu_tanh;
}

}  // namespace troupe::kernels
