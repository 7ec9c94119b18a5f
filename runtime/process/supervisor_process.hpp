// The front's side of a run of several processes: the process that hosts the supervisor, as a child
// of this one, what it tells, and how nothing is left behind when it is lost.

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

/// Where the child finds what it is given, which has no other descriptors (CHILD-1).
namespace supervisor_descriptor {
constexpr int front = 3;    ///< for front_connection
constexpr int order = 4;    ///< a file with what it is to do
constexpr int console = 5;  ///< the front's standard error, until the run has a log
}  // namespace supervisor_descriptor

/// How often a sign of life goes out, and so how much of the suspicion may pass without one.
std::chrono::milliseconds beat_of(double suspicion);

/// One thread, but where another is allowed.
///
///   SHOWN-2  The run needs nothing of this process: when it ends, however, the child goes on.
///   SHOWN-3  When the child has ended, however, and nobody goes on with its run, no process of it
///            is left (end_what_is_left).
class supervisor_process {
 public:
  /// Nothing is started yet. Orphans of this process come to it from now on (a subreaper): so it
  /// knows whom a child that was killed has left. `suspicion` in seconds. Throws io_error.
  explicit supervisor_process(double suspicion);
  /// The child is left alone; its pair of sockets ends.
  ~supervisor_process();
  supervisor_process(const supervisor_process&) = delete;
  supervisor_process& operator=(const supervisor_process&) = delete;

  /// `order` is any text. Throws io_error.
  void start(const std::vector<std::string>& command, const std::string& order);

  /// What it tells next, but signs of life; nothing: it has ended, or was killed since it gave none
  /// for the time of suspicion, or had not ended ten times as long after it told that it does, and
  /// `end` says how.
  std::optional<supervisor_told> next();

  /// Any thread, also before the start.
  void ask_to_end(const std::string& why);
  /// `next` gives nothing soon. The same.
  void kill();

  const process_id& id() const { return child_->id(); }
  /// Once `next` gave nothing.
  const process_end& end() const { return *end_; }
  /// What it did before it was killed by this object; empty: it ended, or was killed, by itself.
  const std::string& silence() const { return silence_; }

  /// Ends whom a child that has ended has left of the run in that folder: asks its host agent to
  /// end them, and kills it when it does not within the time of suspicion. Other children of this
  /// process are left alone, and so is an agent that the child has not started. `at_once`: the
  /// agent has a second at most.
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
  bool begun_ = false;                             ///< it has told something
  bool ends_ = false;                              ///< it has told that it does
  std::chrono::steady_clock::duration ending_{0};  ///< since then, while this process ran, too

  std::mutex mutex_;  ///< of what follows
  std::vector<std::string> asked_;
  bool kill_ = false;
};

}  // namespace troupe::runtime
