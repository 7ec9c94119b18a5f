// The resources that end with a node. A hanging node runs no destructor, so its replacement
// releases these resources in its place.

#pragma once

#include "runtime/core/cancel.hpp"

#include <caf/actor.hpp>
#include <caf/actor_control_block.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe::actors {

/// Resources of one node. Any thread.
class holdings {
 public:
  /// Registers an actor that ends with the node. False: the node was replaced, and the caller must
  /// end the actor.
  bool add(const caf::actor& spawned);
  /// Sets the callback that releases all waits of the node's generation. It replaces the previous
  /// callback, and runs at once if the node has ended.
  void release_by(std::function<void()> release);
  /// Sets the token that is cancelled at the end, so that services publish nothing more. Cancelled
  /// at once if the node has ended.
  void services(runtime::cancel_token x);
  /// Releases everything. Later calls do nothing.
  void end();

 private:
  std::mutex mutex_;
  bool ended_ = false;
  std::vector<caf::weak_actor_ptr> actors_;
  std::function<void()> release_;
  runtime::cancel_token services_;
};

/// The holdings of the process's current node. Any thread.
class newest_holdings {
 public:
  void set(std::shared_ptr<holdings> x);
  std::shared_ptr<holdings> get() const;  ///< null before the first node

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<holdings> newest_;
};

}  // namespace troupe::actors
