// Watching a job from a program of your own: examples/05_monitor.cpp is the story.

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

/// The way to ask this supervisor for an early end, or whoever is the supervisor of this front;
/// does not keep it alive.
drain_request drain_by(const messages::supervisor_actor& supervisor,
                       std::shared_ptr<const message_path> by);
drain_request drain_by(const messages::front_actor& front, std::shared_ptr<const message_path> by);

/// Spawns an actor of the user's that watches a job. It is told every committed step and every
/// validation, in order, and is stopped after the last. No step waits for it, and its death ends
/// nothing but its watching; the job's end waits until it has taken up what it was told. Spawn it
/// with caf::detached if it blocks. Called once, before the first step; the request may be kept.
using make_viewer = std::function<messages::viewer_actor(caf::actor_system&, const drain_request&)>;

}  // namespace troupe::actors
