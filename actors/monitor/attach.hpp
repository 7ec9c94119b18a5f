// Watches a live run from your own program: an actor of yours gets the run's records as typed
// messages, by the run's hub (docs/formats/telemetry.md). Example: examples/13_watch_a_run.cpp.
//
//   caf::actor_system_config config;
//   messages::add_message_types(config);
//   caf::actor_system system(config);
//   auto watching = actors::attach(system, actors::run_in("RUN"), system.spawn(observer));
//
// The observer gets, in the order of the run: `told_record` of kind "run"; the run's state; each
// new record; `run_ended`, the last message. A step is told once. After another process has taken
// over the run, "run" is told again, and other records of the state may repeat.
//
//   ATTACH-1  At most one message is in the observer's mailbox. The courier sends the next one when
//             CAF answers that the observer has handled it; observers need no code for this.
//   ATTACH-2  Further records wait in a bounded queue. A full queue drops its oldest, and
//             `told_record` of kind "dropped" has their count. The run never waits.
//   ATTACH-3  After the observer's death no record is read. The destructor takes about a second.

#pragma once

#include "messages/protocol/handles.hpp"
#include "runtime/trainer/run_command.hpp"
#include "runtime/watch/follower.hpp"

#include <caf/fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace troupe::actors {

/// The run with this folder, on this host. Throws as run_folder::open.
runtime::followed_run run_in(const std::filesystem::path& folder);

/// Sends a command and returns the run's answer. Waits for it: the run answers between two steps,
/// so spawn an observer that calls this with caf::detached. `control_token`: empty: the file in the
/// run's folder. Throws input_error when the run refuses or there is no token, and io_error.
std::string command_to(const runtime::followed_run& run,
                       const runtime::run_command& what,
                       const std::string& control_token = {});

struct attach_settings {
  std::string control_token = {};  ///< for commands; empty: the file in the run's folder
  std::size_t most_waiting = 4096;
  std::size_t most_bytes = std::size_t(64) << 20;  ///< of the waiting records' texts
  runtime::follower_limits limits = {};
};

/// Follows a run until it ends or this object is destroyed, before its actor system.
class attachment {
 public:
  attachment(attachment&&) noexcept;
  attachment& operator=(attachment&&) noexcept;
  ~attachment();

  /// command_to this run. Any thread.
  std::string command(const runtime::run_command& what) const;

  std::uint64_t dropped() const;  ///< records so far; any thread

 private:
  friend attachment attach(caf::actor_system&,
                           runtime::followed_run,
                           messages::observer_actor,
                           attach_settings);
  struct parts;
  explicit attachment(std::unique_ptr<parts> made);

  std::unique_ptr<parts> parts_;
};

/// Starts a thread that follows the run. Returns at once; an unreachable run is told by
/// `run_ended`. Throws io_error when the system refuses the thread.
attachment attach(caf::actor_system& system,
                  runtime::followed_run run,
                  messages::observer_actor to,
                  attach_settings how = {});

}  // namespace troupe::actors
