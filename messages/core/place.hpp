// Where in the job a message belongs. Every message carries the generation; an effect of an old one
// is never committed.

#pragma once

#include "runtime/core/ids.hpp"

#include <caf/meta/type_name.hpp>

namespace troupe::messages {

/// Which pass of which micro-batch.
struct place {
  runtime::generation_id generation = {};
  runtime::step_id step = {};
  bool validation = false;  ///< of the validation that follows the step
  runtime::model_id model = {};
  runtime::chunk_id chunk = {};  ///< the receiver's
  runtime::copy_id copy = {};
  runtime::microbatch_id microbatch = {};

  friend auto operator<=>(const place&, const place&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, place& x) {
  return f(caf::meta::type_name("place"),
           x.generation,
           x.step,
           x.validation,
           x.model,
           x.chunk,
           x.copy,
           x.microbatch);
}

}  // namespace troupe::messages
