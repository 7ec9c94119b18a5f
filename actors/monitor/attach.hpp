// Watches a live run from your own program: your actor receives the run's records as typed
// messages. They come from the run's hub (docs/formats/telemetry.md). Example:
// examples/13_watch_a_run.cpp.
//
//   caf::actor_system_config config;
//   messages::add_message_types(config);
//   caf::actor_system system(config);
//   auto watching = actors::attach(system, actors::run_in("RUN"), system.spawn(observer));
//
// The observer receives, in the order of the run: `told_record` of kind "run"; the run's state;
// each new record; `run_ended`, the last message. Each step comes once. The state has up to 1,000
// old steps; `connection_changed` with an empty text follows it, before the first new record. When
// another process takes over the run, "run" comes again, and other records of the state may repeat.
//
//   ATTACH-1  The observer's mailbox holds at most one message of an attachment. The courier sends
//             the next one when CAF reports that the observer has handled it. Observers need no
//             code for this.
//   ATTACH-2  Further records wait in a bounded queue. A full queue drops its oldest records;
//             `told_record` of kind "dropped" has their count. The run never waits.
//   ATTACH-3  Reading ends when the observer dies. The destructor takes about a second.

#pragma once

#include "messages/protocol/handles.hpp"
#include "runtime/state/run_command.hpp"
#include "runtime/watch/follower.hpp"

#include <caf/fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace troupe::actors {

/// The run in this folder on this host. Throws as run_folder::open.
runtime::followed_run run_in(const std::filesystem::path& folder);

/// Sends a command, waits for the run's answer and returns it. The run answers between two steps,
/// so spawn an observer that calls this with caf::detached. Empty `control_token`: reads it from
/// the run's folder. Throws input_error when the run refuses the command or there is no token, and
/// io_error when the run cannot be reached.
std::string command_to(const runtime::followed_run& run,
                       const runtime::run_command& what,
                       const std::string& control_token = {});

struct attach_settings {
  std::string control_token = {};   ///< for commands; empty: read from the run's folder
  std::size_t most_waiting = 4096;  ///< records
  std::size_t most_bytes = std::size_t(64) << 20;  ///< total text of the waiting records
  runtime::follower_limits limits = {};
};

/// Follows a run until the run ends or this object is destroyed. Destroy it before the actor
/// system.
class attachment {
 public:
  attachment(attachment&&) noexcept;
  attachment& operator=(attachment&&) noexcept;
  ~attachment();

  /// Sends a command to this run, as `command_to`. Any thread.
  std::string command(const runtime::run_command& what) const;

  std::uint64_t dropped() const;  ///< number of dropped records so far; any thread

 private:
  friend attachment attach(caf::actor_system&,
                           runtime::followed_run,
                           messages::observer_actor,
                           attach_settings);
  struct parts;
  explicit attachment(std::unique_ptr<parts> made);

  std::unique_ptr<parts> parts_;
};

/// Starts a thread that follows the run, and returns at once. If the run is unreachable, the
/// observer receives `run_ended`. Throws io_error when the system refuses the thread.
attachment attach(caf::actor_system& system,
                  runtime::followed_run run,
                  messages::observer_actor to,
                  attach_settings how = {});

}  // namespace troupe::actors
