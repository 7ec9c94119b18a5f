// The TCP ports that a UCX worker listens on by itself.
//
// UCX trusts every connection that speaks its protocol. So these ports are shut, except while the
// worker's one peer connects (WIRE-4). UCX cannot shut them. A packet filter on their sockets drops
// new connections and leaves open ones alone.

#pragma once

#include <set>
#include <span>
#include <vector>

namespace troupe::runtime::ucx {

/// Listening sockets of this process.
std::set<int> listening_sockets();

/// The ports of one worker, which owns the sockets and must outlive this object.
class door {
 public:
  door() = default;
  /// Finds and shuts the worker's sockets: those that did not listen `before` and have a port that
  /// its address contains. Other threads may have opened further sockets meanwhile. Throws
  /// std::system_error.
  door(const std::set<int>& before, std::span<const char> address_of_worker);

  void open();
  void shut();
  std::size_t ports() const { return sockets_.size(); }
  const std::vector<int>& sockets() const { return sockets_; }

 private:
  std::vector<int> sockets_;
};

}  // namespace troupe::runtime::ucx
