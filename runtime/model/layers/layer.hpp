// Description of a layer: its sublayers in order, each with its norms.
//
// A sublayer adds to the residual stream. The position of its norm defines the kind of model:
// before the sublayer (GPT-2; Xiong et al.: "On Layer Normalization in the Transformer
// Architecture", 2020), after the sum (BERT; Vaswani et al., 2017), or both. A model family maps
// its configuration to such a description (gpt/gpt.hpp).

#pragma once

#include "runtime/model/layers/attention.hpp"
#include "runtime/model/layers/feed_forward.hpp"
#include "runtime/model/layers/module_spec.hpp"
#include "runtime/model/layers/norm.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// h + dropout(body(norm(h))), then an optional norm.
struct residual_sublayer {
  std::string name;  ///< name within the layer: "self_attention"
  std::optional<norm_spec> norm_before = {};
  module_spec body;  ///< replaces pass::x with its output: partial along the tensor axis, or whole
  double dropout = 0;
  std::optional<norm_spec> norm_after = {};
};

void add(module_builder& to, const residual_sublayer& x);
module_traits traits_of(const residual_sublayer& x);
module_flops forward_flops(const residual_sublayer& x, std::int64_t T);

/// A custom sublayer including norm and residual. Reads and writes pass::hidden.
struct own_sublayer {
  std::string name;  ///< name within the layer: "mlp"
  std::function<void(module_builder&)> build;
  std::vector<std::string> reads = {};                     ///< see module_traits
  std::vector<loss_spec> losses = {};                      ///< see module_traits
  std::vector<std::string> tied_to = {};                   ///< see module_traits
  std::function<module_flops(std::int64_t T)> flops = {};  ///< of a forward pass; empty: none
  bool host_only = false;                                  ///< see module_traits
};

void add(module_builder& to, const own_sublayer& x);
module_traits traits_of(const own_sublayer& x);
module_flops forward_flops(const own_sublayer& x, std::int64_t T);

struct layer_spec {
  std::vector<module_spec> sublayers;  ///< in execution order
};

/// Reads and writes pass::hidden (B, T, C).
void add(module_builder& to, const layer_spec& x);
/// Breaks MODEL-2 if its sublayers differ in width.
module_traits traits_of(const layer_spec& x);
module_flops forward_flops(const layer_spec& x, std::int64_t T);

}  // namespace troupe::runtime
