// Wires over UCX, which is loaded as a plug-in (kernels/backend/plugin.hpp).

#pragma once

#include "runtime/transport/wire.hpp"

namespace troupe::runtime {

/// Sets the environment variables that UCX reads when it is loaded; keeps the user's values. Call
/// it before other threads read the environment: in `main`, else the first `make_ucx_wire` does.
void choose_settings_of_ucx();

/// Throws io_error when the plug-in is missing, UCX or the system refuses, or the settings have
/// both or neither of `secret` and `without_secret`.
std::unique_ptr<wire> make_ucx_wire(wire_owner& owner, const wire_settings& settings);

/// Settings for tests, benchmarks and programs of one user on one machine. Listens on loopback and
/// trusts every local user.
inline wire_settings settings_without_secret() {
  wire_settings out;
  out.without_secret = true;
  return out;
}

}  // namespace troupe::runtime
