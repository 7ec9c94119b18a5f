// Passes: what a stage's lane computes for one action of its row.
//
//   timed_pass(verified_pass(plain_pass))    each layer only if it is asked for
//
// Injected faults wrap the worker below (actors/faults/faulty_worker.hpp).

#pragma once

#include "actors/stage/timing.hpp"
#include "messages/training/handoff.hpp"
#include "runtime/core/cancel.hpp"
#include "runtime/schedule/plan.hpp"
#include "runtime/trainer/worker.hpp"
#include "runtime/transport/transport.hpp"

#include <memory>
#include <optional>

namespace troupe::actors {

struct stage_context;

/// An action, with what the lane needs for it.
struct pass_order {
  runtime::action what;
  runtime::pass_key key;
  runtime::ticket_bundle inputs;
  std::shared_ptr<runtime::transport> transport;
  runtime::generation_id generation;
  runtime::cancel_token token;
  bool timed = false;        ///< reports begin, end and the longest action
  bool takes_times = false;  ///< records the times that reveal slow workers
  bool verified = false;     ///< another replica recomputes it
};

struct pass_outcome {
  std::shared_ptr<const void> credit;  ///< for the outputs
  runtime::ticket_bundle outputs = {};
  time_spent times = {};
  double longest_ms = 0;
  std::optional<messages::check_pass> check = {};  ///< to be sent to the verifying stage
};

/// Runs on the lane. Redeems the inputs, computes, and deposits the outputs. Throws broken_promise
/// (STAGE-1), and cancelled when its token is set.
void carry_out(const pass_order& x,
               pass_outcome& to,
               stage_context& context,
               runtime::stream& stream);

}  // namespace troupe::actors
