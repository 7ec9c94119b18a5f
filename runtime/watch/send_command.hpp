// Sends a command to a live run through its hub: docs/formats/commands.md.

#pragma once

#include "runtime/http/client.hpp"
#include "runtime/watch/follower.hpp"

#include <functional>
#include <string>

namespace troupe::runtime {

/// The control token in the run's folder; empty without a folder. Throws as read_text.
std::string control_token_of(const followed_run& run);

/// `to`: the hub and the control token. `command`: text of a run_command. Returns the answer, a
/// sentence for the user. The run answers between two steps, so this may wait for a whole step.
///
/// Calls `idle` about once a second; throws `cancelled` when it returns false. The run may still
/// execute the command then. Throws input_error with the run's reason if the run refuses the
/// command, and io_error if no complete answer arrives.
std::string send_command(const http::service_address& to,
                         const std::string& command,
                         const std::function<bool()>& idle = {});

}  // namespace troupe::runtime
