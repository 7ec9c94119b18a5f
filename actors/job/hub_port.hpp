// The port of a run's hub (`watch.hub`), for viewers without access to the run's folder.

#pragma once

#include "runtime/http/server.hpp"
#include "runtime/job/job.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

struct hub_port {
  runtime::http::endpoint at;
  std::optional<runtime::http::server_certificate> tls;  ///< none: only for loopback addresses
  std::vector<std::string> names;  ///< host names that viewers' requests may use
};

/// None if the run has no port. May wait for name servers. Throws input_error for an unknown host,
/// a wrong or missing certificate, or an address that other hosts reach without TLS.
std::optional<hub_port> hub_port_of(const runtime::watch_settings& x);

}  // namespace troupe::actors
