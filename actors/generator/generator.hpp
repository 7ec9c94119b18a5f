// The generator: owns the engine and its requests, and computes texts and vectors. Spawn it with
// caf::detached: a forward pass blocks its thread. Between two passes it handles the messages that
// have arrived, so a new text joins and a cancelled one leaves at the next pass.
//
// It computes in one process; plans over the stages of several processes come later.

#pragma once

#include "messages/protocol/actors.hpp"
#include "runtime/inference/embedder.hpp"
#include "runtime/serving/text_engine.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <memory>

namespace troupe::actors {

/// A generator computes with one of these; the other one is null.
struct generator_resources {
  std::unique_ptr<runtime::serving::text_engine> texts;
  std::unique_ptr<runtime::embedder> vectors;
};

/// Ends with a reason when a forward pass fails.
messages::generator_actor::behavior_type generator(
    messages::generator_actor::pointer self, const std::shared_ptr<generator_resources>& with);

}  // namespace troupe::actors
