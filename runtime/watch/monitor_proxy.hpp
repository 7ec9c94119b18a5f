// HTTP proxy of the page of a run: serves the page on a port of this host, and
// forwards its requests to the run's hub. A browser cannot open the hub's Unix socket.
//
//   PROXY-1  Each request needs the proxy's own token. A command also needs the run's control
//            token, which the hub checks.
//   PROXY-2  A slow browser delays only its own stream. The bytes that wait for it are bounded.
//   PROXY-3  Each request looks up the hub again. The page continues with a successor of the
//            supervisor's process, and with the next run in the same folder.
//   PROXY-4  The proxy sets the content type and the content security policy (CSP) of each
//            response of the hub. A browser does not show such a response as a page.

#pragma once

#include "runtime/http/client.hpp"
#include "runtime/http/server.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe::runtime {

class monitor_proxy {
 public:
  /// Returns the hub's current address, with the read token if it needs one. Called on several
  /// threads at once. Throws error when there is no run.
  using hub_address = std::function<http::service_address()>;

  /// Listens when the constructor returns. Throws as http::server.
  monitor_proxy(const http::endpoint& at, hub_address hub);
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

}  // namespace troupe::runtime
