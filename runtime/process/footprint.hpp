// The resources that a run's processes use, seen from outside. Checks what is left after the run.
//
// Linux: proc(5); /proc/PID/environ, fd and maps, /proc/net/tcp, /proc/sysvipc.

#pragma once

#include "runtime/process/process_id.hpp"

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// Members are recognized by an environment variable. A process passes it to all its children,
/// whatever their group, session and parent. One thread.
class footprint {
 public:
  /// `mark`: NAME=VALUE in the environment of the run's first process, unique to this run.
  explicit footprint(std::string mark) : mark_(std::move(mark)) {}

  const std::string& mark() const { return mark_; }
  /// Also covers the processes that the standing node with that folder started, and their listening
  /// sockets in its network namespace. The node itself is not counted.
  void add_host(std::filesystem::path folder, const process_id& node) {
    hosts_.push_back({std::move(folder), node});
  }
  /// Running processes, without zombies.
  std::vector<process_id> processes() const;
  /// Records their listening sockets and mapped shared memory.
  void look();
  /// The recorded resources that still exist, in words: processes, listening sockets, named memory
  /// and semaphores. Reports them also when another program uses them by now.
  std::vector<std::string> left() const;
  /// Kills all processes until none is left, for at most ten seconds.
  void kill_all() const;

 private:
  std::set<std::string> listening() const;

  std::string mark_;
  struct host {
    std::filesystem::path folder;
    process_id node;
  };
  std::vector<host> hosts_ = {};
  std::set<pid_t> pids_;
  std::set<std::string> sockets_;                ///< inodes of the listening sockets
  std::set<std::filesystem::path> memory_ = {};  ///< below /dev/shm
};

/// Files that an ended run left in its folders, in words: sockets, credentials, partly written
/// files, and everything in `temporary`, which only this run used.
std::vector<std::string> files_left(const std::filesystem::path& run,
                                    const std::filesystem::path& save,
                                    const std::filesystem::path& temporary);

/// Like files_left, for the folder of a standing node. Credentials are not reported: the node keeps
/// them while it runs. `run_id`: the run that has ended.
std::vector<std::string> files_left_by_host(const std::filesystem::path& folder,
                                            const std::string& run_id);

/// Remaining shared memory with the run's name prefix, in words.
std::vector<std::string> segments_left(const std::string& run_id);

}  // namespace troupe::runtime
