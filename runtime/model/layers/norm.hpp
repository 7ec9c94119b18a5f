// A normalisation with its parameters. Ba et al.: "Layer Normalization", 2016; Zhang and Sennrich:
// "Root Mean Square Layer Normalization", 2019.

#pragma once

#include "runtime/model/layers/module_builder.hpp"

#include <utility>

namespace troupe::runtime {

struct norm_spec {
  std::string name;  ///< in its layer: "input_layernorm"
  norm_options options;
};

/// What a norm is called by once its parameters are there.
struct norm_layer {
  norm_options options;
  int gain = no_parameter, bias = no_parameter;  ///< no bias: RMS

  variable operator()(tape& tape, const variable& x) const {
    return norm(tape, x, options, gain, bias);
  }
  /// Of pass::hidden with what is still to be added to it: for segments that add.
  variable operator()(tape& tape, pass& p) const {
    if (!p.addend.data)
      return norm(tape, p.hidden, options, gain, bias);
    return residual_norm(tape, std::exchange(p.addend, {}), p.hidden, options, gain, bias);
  }
};

/// Parameters "<name>.weight" and, of a layer norm, "<name>.bias", of `size` elements. Of heads:
/// each tensor rank sees some of those that share them, so that gradients are partial.
norm_layer add_norm(module_builder& to,
                    const norm_spec& x,
                    std::int64_t size,
                    bool of_heads = false);

}  // namespace troupe::runtime
