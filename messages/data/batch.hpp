// Requests for micro-batches.
//
//   stage -> loader   request_batch
//   loader -> stage   batch_ready     for the same pass
//                     batch_failed    a request ahead failed
//
// A stage requests the next step's micro-batches once it has all of the current step (run_step
// contains what is needed). So reading overlaps with computing, and at most two steps of
// micro-batches are pending.
//
// Unreadable data ends the loader with the cause, in the step that needs the data. A request ahead
// only reports the failure, and the stage asks again when that step begins. By then the earlier
// steps are committed.
//
//   DATA-1  The content of a micro-batch depends only on the request.
//   DATA-2  A step uses the micro-batches that were requested ahead for it.
//   DATA-3  A failed request ahead does not disturb earlier steps.
//   DATA-4  The data have every tensor that the model reads. Checked before the run, and by the
//           loader for each name.

#pragma once

#include "messages/core/inspect.hpp"
#include "messages/core/pass_id.hpp"
#include "runtime/tensor/ticket.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::messages {

struct request_batch {
  pass_id at;
  int replica = 0;               ///< logical replica
  std::uint64_t microbatch = 0;  ///< within the logical replica; pass_id counts over all of them
  std::uint64_t consumed = 0;    ///< samples consumed before this step
  bool validation = false;       ///< from the validation set
  bool test = false;             ///< with `validation`: from the test set
  /// Tensors of the micro-batch that the chunk takes; borders of documents if it has them.
  std::vector<std::string> names = {};
  bool ahead = false;  ///< requested before its step begins
};

struct batch_ready {
  pass_id at;
  runtime::ticket_bundle data;
};

struct batch_failed {
  pass_id at;
};

}  // namespace troupe::messages
