// Activations of feed-forward layers as one name: a function, and whether a second product gates
// it. "relu", "gelu_tanh", "gelu_erf", "silu" and "squared_relu"; gated "reglu", "geglu" (tanh
// formula) and "swiglu".

#pragma once

#include "kernels/op/kinds.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

struct gated_activation {
  kernels::activation function = kernels::activation::gelu_tanh;
  bool gated = false;
};

/// Throws input_error for an unknown name.
gated_activation activation_named(std::string_view name);

/// Adds a sentence with all names if it is unknown.
void require_activation(std::string_view name, std::vector<std::string>& out);

}  // namespace troupe::runtime
