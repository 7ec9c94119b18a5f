// Sends a command to a live run through its hub: docs/formats/commands.md.

#pragma once

#include "runtime/http/client.hpp"

#include <functional>
#include <string>

namespace troupe::runtime {

/// `to`: the hub, with the control token. `command`: the text of a run_command. Returns the
/// sentence of the answer. The run answers between two steps, so this waits as long as a step
/// takes. `idle` is called about once a second and ends the wait by returning false, which throws
/// `cancelled`; the run may still take the command. Throws input_error with the run's reason when
/// it refuses, and io_error when no whole answer comes.
std::string send_command(const http::service_address& to,
                         const std::string& command,
                         const std::function<bool()>& idle = {});

}  // namespace troupe::runtime
