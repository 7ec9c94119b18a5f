// Feed-forward layer: two matrix products with an activation between them. Shazeer: "GLU Variants
// Improve Transformer", 2020.

#pragma once

#include "runtime/model/layers/module_spec.hpp"

namespace troupe::runtime {

struct feed_forward_spec {
  std::int64_t hidden = 0;  ///< C
  std::int64_t ffn = 0;     ///< width between the products, after the activation
  kernels::activation activation = kernels::activation::gelu_tanh;
  bool gated = false;  ///< fc1 has twice the width: gate, then linear
  bool bias = false;
  double init_std = 0, output_init_std = 0;
};

/// Replaces pass::x (.., C) with its output, before the sum over tensor ranks. Returns the bias
/// that must be added to the sum, or no_parameter.
int add(module_builder& to, const feed_forward_spec& x);
module_traits traits_of(const feed_forward_spec& x);
module_flops forward_flops(const feed_forward_spec& x, std::int64_t T);

}  // namespace troupe::runtime
