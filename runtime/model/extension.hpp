// What a user's model does otherwise than its family: its own feed-forward sublayer, its own loss.
//
// examples/03_own_layer.cpp is the story. An extension travels in a recipe, so that the reference
// trainer, a job of actors and a loaded model carry it out alike, in every layout that its
// operations know.

#pragma once

#include "runtime/model/layers/feed_forward.hpp"

#include <functional>
#include <string>

namespace troupe::runtime {

struct extension {
  /// Part of a run's identity: a checkpoint is only loaded under the name that it was saved with.
  /// Change it when the function changes. Needed where anything else here is given.
  std::string name = {};

  /// In place of normalisation, feed-forward layer and residual: takes pass::hidden and leaves it.
  /// Told what it replaces. Null: the family's.
  std::function<void(module_builder&, const feed_forward_spec& in_place_of)> feed_forward = {};

  /// In place of cross_entropy, under its contract. Null: cross_entropy.
  std::function<decltype(cross_entropy)> loss = {};
};

}  // namespace troupe::runtime
