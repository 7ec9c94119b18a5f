// Variants of a layer's operations that a model can choose. This header has no kernel arguments;
// the formulas are in the header of each family.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe::kernels {

// X(activation): the functions of activation.hpp, each from one number to one number.
#define TROUPE_EVERY_ACTIVATION(X) \
  X(gelu_tanh)                     \
  X(gelu_erf)                      \
  X(silu)                          \
  X(squared_relu)                  \
  X(relu)                          \
  X(tanh)                          \
  X(quick_gelu)

#define TROUPE_ENUMERATE(name) name,
#define TROUPE_VALUE(name) activation::name,
#define TROUPE_EPILOGUE(name) epilogue::name,
#define TROUPE_NAME(name) #name,

/// Whether an activation is gated is a choice beside it.
enum class activation : std::uint8_t { TROUPE_EVERY_ACTIVATION(TROUPE_ENUMERATE) };
inline constexpr activation every_activation[] = {TROUPE_EVERY_ACTIVATION(TROUPE_VALUE)};

/// The name in a model's configuration.
constexpr std::string_view text(activation kind) {
  constexpr std::string_view names[] = {TROUPE_EVERY_ACTIVATION(TROUPE_NAME)};
  return names[std::size_t(kind)];
}

/// Input width per unit of output width of an activation, gated or not.
constexpr std::int64_t fan_in(bool gated) {
  return gated ? 2 : 1;
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
enum class epilogue : std::uint8_t { none, TROUPE_EVERY_ACTIVATION(TROUPE_ENUMERATE) };
inline constexpr epilogue every_epilogue[]
    = {epilogue::none, TROUPE_EVERY_ACTIVATION(TROUPE_EPILOGUE)};

#undef TROUPE_ENUMERATE
#undef TROUPE_VALUE
#undef TROUPE_EPILOGUE
#undef TROUPE_NAME

/// The epilogue of an activation, or `none` for gated ones: their input is wider than their output.
constexpr epilogue epilogue_of(activation kind, bool gated = false) {
  return gated ? epilogue::none : epilogue(int(kind) + 1);
}

/// The activation of an epilogue other than `none`.
constexpr activation activation_of(epilogue x) {
  return activation(int(x) - 1);
}
static_assert(activation_of(epilogue::quick_gelu) == activation::quick_gelu);

}  // namespace troupe::kernels
