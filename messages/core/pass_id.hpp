// Identifies the pass that a message belongs to. Messages carry their generation; effects of an old
// generation are never committed.

#pragma once

#include "messages/core/inspect.hpp"
#include "runtime/core/ids.hpp"

namespace troupe::messages {

/// A pass of a micro-batch.
struct pass_id {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  bool validation = false;  ///< belongs to the validation after the step
  runtime::model_id model = {};
  runtime::chunk_id chunk = {};  ///< the receiver's chunk
  runtime::copy_id copy = {};
  runtime::microbatch_id microbatch = {};

  friend auto operator<=>(const pass_id&, const pass_id&) = default;
};

}  // namespace troupe::messages
