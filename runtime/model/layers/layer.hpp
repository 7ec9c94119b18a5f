// A layer, described by data: which sublayers, in which order, each with its norms.
//
// A sublayer adds to the residual stream. Where its norm stands decides the kind of model: before
// the sublayer (GPT-2; Xiong et al.: "On Layer Normalization in the Transformer Architecture",
// 2020), after the sum (BERT; Vaswani et al., 2017), or both. A family of models is a function from
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

/// h + dropout(body(norm(h))), then another norm.
struct residual_sublayer {
  std::string name;  ///< in its layer: "self_attention"
  std::optional<norm_spec> norm_before = {};
  std::variant<attention_spec, feed_forward_spec> body;
  double dropout = 0;
  std::optional<norm_spec> norm_after = {};

  std::int64_t hidden() const;  ///< C
  /// What its segments belong to where they are not of a module of their own.
  recompute_module module() const;
};

/// A user's own: norm, residual and all. Takes pass::hidden and leaves it.
struct own_sublayer {
  std::string name;  ///< in its layer: "mlp"
  std::function<void(module_builder&)> build;
};

using sublayer_spec = std::variant<residual_sublayer, own_sublayer>;

struct layer_spec {
  std::vector<sublayer_spec> sublayers;  ///< in the order in which they run
};

/// Takes pass::hidden (B, T, C) and leaves it.
void add(module_builder& to, const layer_spec& x);

}  // namespace troupe::runtime
