// What ends with a node, whichever way it goes: by itself, or left behind as it hangs. A node that
// hangs runs no destructor; who takes it for dead ends what it held in its place.

#pragma once

#include "runtime/core/cancel.hpp"

#include <caf/actor.hpp>
#include <caf/actor_control_block.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe::actors {

/// Of one node. Any thread.
class holdings {
 public:
  /// It ends with the node. False: the node has been taken for dead, and the actor is to end.
  bool add(const caf::actor& spawned);
  /// Called at the end: whatever waits in the node's generation is released. Replaces the one
  /// before; at once where the end has been.
  void release_by(std::function<void()> release);
  /// Set at the end: nothing more of the services becomes visible. As above.
  void services(runtime::cancel_token x);
  /// Once: whoever calls later finds nothing to do.
  void end();

 private:
  std::mutex mutex_;
  bool ended_ = false;
  std::vector<caf::weak_actor_ptr> actors_;
  std::function<void()> release_;
  runtime::cancel_token services_;
};

/// Those of the node that a process has now. Any thread.
class newest_holdings {
 public:
  void set(std::shared_ptr<holdings> x);
  std::shared_ptr<holdings> get() const;  ///< null: there was no node yet

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<holdings> newest_;
};

}  // namespace troupe::actors
