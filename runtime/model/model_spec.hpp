// A whole model, described by data: what a family makes of its configuration, and a chunk is cut
// of.

#pragma once

#include "runtime/model/layers/embedding.hpp"
#include "runtime/model/layers/head.hpp"
#include "runtime/model/layers/layer.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

struct model_spec {
  std::string stack = "decoder";  ///< its layers are called "<stack>.layers.<number>"
  std::int64_t sequence = 0;      ///< T: the length of the sequences that it is trained on
  embedding_spec embedding;
  std::vector<layer_spec> layers;
  head_spec head;
  /// Radians a position, of each rotated pair of channels; empty: no rotary positions.
  std::vector<float> rotary_frequency = {};

  /// Learned positions end: no sequence is longer than their table, `embedding.positions`.
  bool bounded() const { return embedding.positions > 0; }
};

}  // namespace troupe::runtime
