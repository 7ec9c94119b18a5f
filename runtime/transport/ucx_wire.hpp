// Wires by UCX, in a plug-in (kernels/backend/plugin.hpp).

#pragma once

#include "runtime/transport/wire.hpp"

namespace troupe::runtime {

/// Before there are threads that ask for environment variables: UCX reads some when it is loaded.
/// Those that the user has set stay. Throws io_error: there is no plug-in, or UCX refuses.
std::unique_ptr<wire> make_ucx_wire(wire_owner& owner, const wire_settings& how = {});

}  // namespace troupe::runtime
