// The TCP ports that a worker of UCX listens on for itself.
//
// Whoever reaches one and speaks UCX's protocol is believed by UCX: it has no notion of a stranger.
// So the ports are shut, but while the one peer that a worker has connects (WIRE-4). Nothing of UCX
// shuts them; a packet filter on their sockets does, which drops whatever asks for a connection and
// touches none that stands.

#pragma once

#include <set>
#include <span>
#include <vector>

namespace troupe::runtime::ucx {

/// Descriptors of this process that are sockets which listen.
std::set<int> listening_sockets();

/// Of the sockets of one worker, which owns them and lives longer.
class door {
 public:
  door() = default;
  /// Those that did not listen `before` the worker was made, and whose port its address names:
  /// another thread may have made others meanwhile. Shuts them. Throws std::system_error.
  door(const std::set<int>& before, std::span<const char> address_of_worker);

  void open();
  void shut();
  std::size_t ports() const { return sockets_.size(); }
  const std::vector<int>& sockets() const { return sockets_; }

 private:
  std::vector<int> sockets_;
};

}  // namespace troupe::runtime::ucx
