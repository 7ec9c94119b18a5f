// What pipeline stages hand to each other, each tensor rank to the one of the same number.
//
//   activation   stage of chunk c -> stage of chunk c + 1      forward
//   gradient     stage of chunk c -> stage of chunk c - 1      backward
//
// within a copy of the model. A stage that has both chunks hands to itself.
//
// Invariants (tests name them):
//   HANDOFF-1  For each pass a stage receives one activation and one gradient.
//   HANDOFF-2  Every ticket is redeemed exactly once, by the receiver.
//   HANDOFF-3  What belongs to another generation is dropped.

#pragma once

#include "messages/core/pass_id.hpp"
#include "runtime/tensor/ticket.hpp"

#include <caf/meta/type_name.hpp>

namespace troupe::messages {

/// Output of one chunk for one micro-batch. The bytes do not travel in the message.
struct activation {
  pass_id at;
  /// "hidden" (B, T, C), with sequence parallelism this rank's rows of it; "positions" (B, T),
  /// "samples" (B); "documents" (D + 1) and "document_samples" (D) where attention ends at them
  runtime::ticket_bundle data;

  friend bool operator==(const activation&, const activation&) = default;
};

/// dLoss/dInput of one chunk for one micro-batch.
struct gradient {
  pass_id at;
  runtime::ticket_bundle data;  ///< "hidden", of the same extents

  friend bool operator==(const gradient&, const gradient&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, activation& x) {
  return f(caf::meta::type_name("activation"), x.at, x.data);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, gradient& x) {
  return f(caf::meta::type_name("gradient"), x.at, x.data);
}

}  // namespace troupe::messages
