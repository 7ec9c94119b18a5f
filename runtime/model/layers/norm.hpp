// Layer norm and RMS norm. Ba et al.: "Layer Normalization", 2016; Zhang and Sennrich: "Root Mean
// Square Layer Normalization", 2019.

#pragma once

#include "runtime/model/layers/module_spec.hpp"

#include <utility>

namespace troupe::runtime {

struct norm_spec {
  std::string name;  ///< name within the layer: "input_layernorm"
  norm_options options;
};

/// A norm with registered parameters.
struct norm_layer {
  norm_options options;
  int gain = no_parameter, bias = no_parameter;  ///< RMS norms have no bias

  variable operator()(tape& tape, const variable& x) const {
    return norm(tape, x, options, gain, bias);
  }
  /// Normalizes pass::hidden plus its pending addend; for segments with `adds`.
  variable operator()(tape& tape, pass& p) const {
    if (!p.addend.data)
      return norm(tape, p.hidden, options, gain, bias);
    return residual_norm(tape, std::exchange(p.addend, {}), p.hidden, options, gain, bias);
  }
};

/// Adds parameters "<name>.weight" and, for layer norms, "<name>.bias", with `size` elements. With
/// `of_heads`, each tensor rank sees only its own heads, so the gradients are partial.
norm_layer add_norm(module_builder& to,
                    const norm_spec& x,
                    std::int64_t size,
                    bool of_heads = false);

/// A norm of a whole stream, as after the last layer of a pre-norm encoder.
struct stream_norm {
  norm_spec norm;
  std::int64_t width = 0;  ///< C
  double dropout = 0;      ///< after the norm
};

/// Replaces pass::hidden.
void add(module_builder& to, const stream_norm& x);
module_traits traits_of(const stream_norm& x);

}  // namespace troupe::runtime
