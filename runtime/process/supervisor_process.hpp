// The front's side of a run of several processes: starts the supervisor process as a child, relays
// its messages, and removes what is left when it is lost.

#pragma once

#include "runtime/process/child_process.hpp"
#include "runtime/process/descriptor.hpp"
#include "runtime/process/frames.hpp"
#include "runtime/process/front_messages.hpp"
#include "runtime/process/process_end.hpp"
#include "runtime/process/process_id.hpp"

#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Descriptors of the child; it has no others (CHILD-1).
namespace supervisor_descriptor {
constexpr int front = 3;    ///< for front_connection
constexpr int order = 4;    ///< a file with the order
constexpr int console = 5;  ///< the front's standard error, until the run has a log
}  // namespace supervisor_descriptor

/// Heartbeat interval, a fraction of the failure detector's timeout `suspicion` (seconds).
std::chrono::milliseconds beat_of(double suspicion);

/// One thread, except where noted.
///
///   SHOWN-2  The run does not need this process: when it ends, in any way, the child continues.
///   SHOWN-3  The run has no process left after any end of the child, unless a successor continues
///            the run (end_what_is_left).
class supervisor_process {
 public:
  /// Starts nothing yet. Makes this process a subreaper, so that it inherits what a killed child
  /// leaves. `suspicion` in seconds. Throws io_error.
  explicit supervisor_process(double suspicion);
  /// Leaves the child running; closes the socket pair.
  ~supervisor_process();
  supervisor_process(const supervisor_process&) = delete;
  supervisor_process& operator=(const supervisor_process&) = delete;

  /// `order` is any text. May be called again after `next` returned nothing: starts another child.
  /// Throws io_error.
  void start(const std::vector<std::string>& command, const std::string& order);

  /// The next message, without heartbeats. Empty: the child has ended, and `end` says how. Kills
  /// the child first when it sent no heartbeat for `suspicion`, or had not ended ten times
  /// `suspicion` after it announced its end.
  std::optional<supervisor_told> next();

  /// Any thread, also before `start`.
  void ask_to_end(const std::string& why);
  /// Kills the child; `next` then returns nothing soon. Any thread, also before `start`.
  void kill();

  const process_id& id() const { return child_->id(); }
  /// Valid after `next` returned nothing.
  const process_end& end() const { return *end_; }
  /// Why this object killed the child; empty: it ended in another way.
  const std::string& silence() const { return silence_; }

  /// Ends the processes of that run that an ended child left. Asks its host agent first and kills
  /// it after `suspicion`. Other children of this process, and agents that the child did not start,
  /// are left alone. `at_once`: gives the agent one second at most.
  void end_what_is_left(const std::filesystem::path& run, bool at_once = false);

 private:
  void carry_out_requests();
  void send(const front_request& x);
  void take_columns();
  void conclude();
  std::optional<supervisor_told> next_received();
  std::chrono::steady_clock::duration left_to_end() const { return 10 * suspicion_ - ending_; }
  void give_up(std::string silence);

  const std::chrono::milliseconds suspicion_, beat_;
  const descriptor wake_;  ///< eventfd
  descriptor connection_;
  std::optional<child_process> child_;
  frame_reader received_;
  std::optional<process_end> end_;
  std::string silence_;
  int columns_ = 0;
  bool begun_ = false;                             ///< the child has sent a message
  bool ends_ = false;                              ///< the child has announced its end
  std::chrono::steady_clock::duration ending_{0};  ///< time since then in which this process ran

  std::mutex mutex_;  ///< protects the members below
  std::vector<std::string> asked_;
  bool kill_ = false;
};

}  // namespace troupe::runtime
