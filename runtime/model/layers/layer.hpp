// Description of a layer: its sublayers in order, each with its norms.
//
// A sublayer adds to the residual stream. The position of its norm defines the kind of model:
// before the sublayer (GPT-2; Xiong et al.: "On Layer Normalization in the Transformer
// Architecture", 2020), after the sum (BERT; Vaswani et al., 2017), or both. A model family maps
// its configuration to such a description (gpt/gpt.hpp).

#pragma once

#include "runtime/model/layers/attention.hpp"
#include "runtime/model/layers/feed_forward.hpp"
#include "runtime/model/layers/norm.hpp"

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe::runtime {

/// h + dropout(body(norm(h))), then an optional norm.
struct residual_sublayer {
  std::string name;  ///< name within the layer: "self_attention"
  std::optional<norm_spec> norm_before = {};
  std::variant<attention_spec, feed_forward_spec> body;
  double dropout = 0;
  std::optional<norm_spec> norm_after = {};

  std::int64_t hidden() const;  ///< C
  /// Recompute module of its segments that do not set their own.
  recompute_module module() const;
};

/// A custom sublayer including norm and residual. Reads and writes pass::hidden.
struct own_sublayer {
  std::string name;  ///< name within the layer: "mlp"
  std::function<void(module_builder&)> build;
};

using sublayer_spec = std::variant<residual_sublayer, own_sublayer>;

struct layer_spec {
  std::vector<sublayer_spec> sublayers;  ///< in execution order
};

/// Reads and writes pass::hidden (B, T, C).
void add(module_builder& to, const layer_spec& x);

}  // namespace troupe::runtime
