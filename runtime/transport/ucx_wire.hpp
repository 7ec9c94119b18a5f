// Wires by UCX, in a plug-in (kernels/backend/plugin.hpp).

#pragma once

#include "runtime/transport/wire.hpp"

namespace troupe::runtime {

/// The environment that UCX reads when it is loaded; what the user has set stays. Before there are
/// threads that ask for environment variables: by `main`, else by the first `make_ucx_wire`.
void choose_settings_of_ucx();

/// Throws io_error: there is no plug-in, UCX refuses, or the system its thread.
std::unique_ptr<wire> make_ucx_wire(wire_owner& owner, const wire_settings& settings = {});

}  // namespace troupe::runtime
