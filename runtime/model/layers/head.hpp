// The end of a language model: the last norm, logits, the loss.

#pragma once

#include "runtime/model/layers/norm.hpp"

namespace troupe::runtime {

struct head_spec {
  norm_spec norm;                      ///< by its full name: "decoder.final_layernorm"
  std::int64_t hidden = 0;             ///< C
  std::int64_t vocabulary = 0;         ///< real tokens
  std::int64_t padded_vocabulary = 0;  ///< V: rows of the weight
  std::string tied_to = {};  ///< the parameter whose values the weight has; empty: its own
  double init_std = 0;
  std::function<decltype(cross_entropy)> loss = cross_entropy;  ///< under the contract of that
};

/// Takes pass::hidden and leaves pass::loss, or pass::logits where there are no labels. Parameters
/// of the norm and "output_layer.weight". The builder has no name.
void add(module_builder& to, const head_spec& x);

}  // namespace troupe::runtime
