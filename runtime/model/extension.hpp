// User extensions of a model family: a custom feed-forward sublayer, a custom loss.
//
// See examples/03_own_layer.cpp. An extension is part of a recipe, so the reference trainer, an
// actor job and a loaded model all use it, in every layout that its operations support.

#pragma once

#include "runtime/model/layers/feed_forward.hpp"

#include <functional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct extension {
  /// Part of a run's identity: a checkpoint loads only under the name it was saved with. Change the
  /// name when the function changes. Required if another field is set.
  std::string name = {};

  /// Replaces norm, feed-forward layer and residual: reads and writes pass::hidden. Gets the spec
  /// that it replaces. Null: the family's own.
  std::function<void(module_builder&, const feed_forward_spec& in_place_of)> feed_forward = {};
  std::vector<std::string> tied_to = {};  ///< by parameters of `feed_forward`: see module_traits

  /// The losses that each pass of `feed_forward` writes by pass::add_loss. Only with it.
  std::vector<loss_spec> losses = {};

  /// Replaces cross_entropy, with the same contract. Null: cross_entropy.
  std::function<decltype(cross_entropy)> loss = {};

  bool host_only = false;  ///< has operations for the CPU alone: see module_traits
};

}  // namespace troupe::runtime
