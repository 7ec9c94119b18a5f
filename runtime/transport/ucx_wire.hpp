// Wires by UCX, in a plug-in (kernels/backend/plugin.hpp).

#pragma once

#include "runtime/transport/wire.hpp"

namespace troupe::runtime {

/// The environment that UCX reads when it is loaded; what the user has set stays. Before there are
/// threads that ask for environment variables: by `main`, else by the first `make_ucx_wire`.
void choose_settings_of_ucx();

/// Throws io_error: there is no plug-in, UCX refuses, the system refuses its thread or its port, or
/// the settings say neither a secret nor that there is none.
std::unique_ptr<wire> make_ucx_wire(wire_owner& owner, const wire_settings& settings);

/// For tests, benchmarks and programs of one user on one machine: on loopback, and whoever uses the
/// machine is believed.
inline wire_settings settings_without_secret() {
  wire_settings out;
  out.without_secret = true;
  return out;
}

}  // namespace troupe::runtime
