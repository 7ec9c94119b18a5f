// Hand-offs between pipeline stages. Each rank sends to the rank that differs only along the
// pipeline axis.
//
//   activation   stage of chunk c -> stage of chunk c + 1      forward
//   gradient     stage of chunk c -> stage of chunk c - 1      backward
//   check_pass   stage -> its replica -> supervisor -> another replica -> its stage at the same
//                position
//
// They stay within a copy of the model. A stage that has both chunks sends to itself.
//
// Invariants (tests name them):
//   HANDOFF-1  For each pass a stage receives one activation and one gradient.
//   HANDOFF-2  The receiver redeems every ticket exactly once.
//   HANDOFF-3  Messages of another generation are dropped.

#pragma once

#include "messages/core/inspect.hpp"
#include "messages/core/pass_id.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/telemetry/step_report.hpp"
#include "runtime/tensor/ticket.hpp"

#include <cstdint>
#include <vector>

namespace troupe::messages {

/// Output of one chunk for one micro-batch. The bytes do not travel in the message.
struct activation {
  pass_id at;
  /// The tensors that cross the cut (runtime/model/liveness.hpp): streams by name, "decoder" (B, T,
  /// C), or this rank's rows of them with sequence parallelism; "positions" (B, T), "samples" (B);
  /// "documents" (D + 1) and "document_samples" (D) if attention ends at document boundaries
  runtime::ticket_bundle data;
};

/// dLoss/dInput of one chunk for one micro-batch.
struct gradient {
  pass_id at;
  runtime::ticket_bundle data;  ///< the streams, with the same extents
};

/// A finished pass that another replica recomputes and compares.
struct check_pass {
  pass_id at;
  int replica = 0;      ///< computed it
  int by = 0;           ///< recomputes it
  int stage_index = 0;  ///< stage of both replicas
  /// The pass's inputs: those of `activation` or of a batch; "gradient of <stream>": the gradients
  /// of the output; "before": the weight gradients before the pass, if the receiver does not have
  /// them.
  runtime::ticket_bundle data;
  runtime::digest output = {};           ///< of the output and the loss
  runtime::digest input_gradient = {};   ///< zero if there is none
  runtime::digest weight_gradient = {};  ///< of its weight gradients after the pass
  /// gradient_before of each weight gradient.
  std::vector<std::uint8_t> before = {};
};

}  // namespace troupe::messages
