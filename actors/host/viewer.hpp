// Watching a job from your own program; see examples/05_monitor.cpp.

#pragma once

#include "messages/protocol/handles.hpp"

#include <caf/fwd.hpp>

#include <functional>
#include <memory>
#include <string>

namespace troupe::actors {

class message_path;

/// Asks a running job to finish its step, save and end. Any thread; also after the end.
using drain_request = std::function<void(const std::string& why)>;

/// A drain_request to this supervisor, or to the current supervisor of this front. Does not keep
/// the actor alive.
drain_request drain_by(const messages::supervisor_actor& supervisor,
                       std::shared_ptr<const message_path> by);
drain_request drain_by(const messages::front_actor& front, std::shared_ptr<const message_path> by);

/// Spawns a user's actor that watches a job. It gets every committed step and every validation, in
/// order, and is stopped after the last. Steps do not wait for it, and its death only ends its
/// watching. The job's end waits until it has handled its messages. Spawn it with caf::detached if
/// it blocks. Called once, before the first step; the request may be kept.
using make_viewer = std::function<messages::viewer_actor(caf::actor_system&, const drain_request&)>;

}  // namespace troupe::actors
