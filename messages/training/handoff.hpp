// What pipeline stages hand to each other, each tensor rank to the one of the same number.
//
//   activation   stage of chunk c -> stage of chunk c + 1      forward
//   gradient     stage of chunk c -> stage of chunk c - 1      backward
//   check_pass   stage -> its replica -> supervisor -> another replica -> its stage of the same
//   place
//
// within a copy of the model. A stage that has both chunks hands to itself.
//
// Invariants (tests name them):
//   HANDOFF-1  For each pass a stage receives one activation and one gradient.
//   HANDOFF-2  Every ticket is redeemed exactly once, by the receiver.
//   HANDOFF-3  What belongs to another generation is dropped.

#pragma once

#include "messages/core/pass_id.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/telemetry/step_report.hpp"
#include "runtime/tensor/ticket.hpp"

#include <caf/meta/type_name.hpp>

#include <cstdint>
#include <vector>

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

/// A pass that was computed, for another replica to compute it again and compare.
struct check_pass {
  pass_id at;
  int replica = 0;      ///< that has computed it
  int by = 0;           ///< that is to compute it again
  int stage_index = 0;  ///< of both
  /// What went in: as of `activation` or of a batch; the gradient of what went out under
  /// "gradient"; under "before" the weight gradients that it added to, where the receiver has them
  /// not.
  runtime::ticket_bundle data;
  runtime::digest output = {};           ///< of what went out, and of the loss
  runtime::digest input_gradient = {};   ///< zero where there is none
  runtime::digest weight_gradient = {};  ///< of those that it added to, after it
  /// What each of them was before (gradient_before).
  std::vector<std::uint8_t> before = {};

  friend bool operator==(const check_pass&, const check_pass&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, check_pass& x) {
  return f(caf::meta::type_name("check_pass"),
           x.at,
           x.replica,
           x.by,
           x.stage_index,
           x.data,
           x.output,
           x.input_gradient,
           x.weight_gradient,
           x.before);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, activation& x) {
  return f(caf::meta::type_name("activation"), x.at, x.data);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, gradient& x) {
  return f(caf::meta::type_name("gradient"), x.at, x.data);
}

}  // namespace troupe::messages
