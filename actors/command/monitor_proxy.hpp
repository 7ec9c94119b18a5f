// The page of a run on a port of this host (`troupe monitor --web`): serves the page's files, and
// passes its requests on to the run's hub, whose socket no browser can open.
//
//   PROXY-1  A request needs the proxy's own token. Commands need the run's control token as well,
//            which the hub checks.
//   PROXY-2  A slow browser slows its own stream down and fills bounded memory.
//   PROXY-3  Each request asks where the hub is now, so the page survives a successor of the
//            supervisor's process, and another run in the folder.
//   PROXY-4  An answer of the hub has the type and the policy (CSP) that the proxy gives it, so
//            that a browser does not show it as a page.

#pragma once

#include "runtime/http/client.hpp"
#include "runtime/http/server.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe::command {

class monitor_proxy {
 public:
  /// Where the hub is now, with the read token if it needs one. Called on several threads at
  /// once. Throws runtime::error when there is no run.
  using hub_address = std::function<runtime::http::service_address()>;

  /// Listens when the constructor returns. Throws as http::server.
  monitor_proxy(const runtime::http::endpoint& at, hub_address hub);
  /// Ends all streams and threads; takes about a second.
  ~monitor_proxy();
  monitor_proxy(const monitor_proxy&) = delete;
  monitor_proxy& operator=(const monitor_proxy&) = delete;

  std::uint16_t port() const;
  const std::string& token() const;  ///< 32 hexadecimal digits

 private:
  class parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::command
