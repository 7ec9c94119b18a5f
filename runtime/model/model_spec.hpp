// Description of a whole model. A model family creates it from its configuration; chunks are cut
// from it.

#pragma once

#include "runtime/model/layers/embedding.hpp"
#include "runtime/model/layers/head.hpp"
#include "runtime/model/layers/layer.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

struct model_spec {
  std::string stack = "decoder";  ///< layers are named "<stack>.layers.<number>"
  std::int64_t sequence = 0;      ///< T: sequence length in training
  embedding_spec embedding;
  std::vector<layer_spec> layers;
  head_spec head;
  /// Radians per position for each rotated pair of channels; empty without rotary positions.
  std::vector<float> rotary_frequency = {};

  /// True for learned positions: `embedding.positions` limits the sequence length.
  bool bounded() const { return embedding.positions > 0; }
};

}  // namespace troupe::runtime
