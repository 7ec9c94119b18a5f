// What the processes of a run have of their machine, seen from outside: whether something of it is
// left when the run has ended.
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

/// Who belongs to it is told by a word of its environment, which a process gives to all that it
/// starts, whatever becomes of group, session and parent. One thread.
class footprint {
 public:
  /// `mark`: NAME=VALUE, which the first process of the run is started with and nobody else has.
  explicit footprint(std::string mark) : mark_(std::move(mark)) {}

  const std::string& mark() const { return mark_; }
  /// Beside those of the mark: whoever the standing node with that folder has started, and what
  /// they listen on in its network. The node itself stays.
  void add_host(std::filesystem::path folder, const process_id& node) {
    hosts_.push_back({std::move(folder), node});
  }
  /// Those that run now, zombies left out.
  std::vector<process_id> processes() const;
  /// Remembers on which sockets they listen now, and which shared memory they have mapped.
  void look();
  /// What is there of all that was seen, in words: processes, sockets that listen, memory and
  /// semaphores that have names. Whoever else has those meanwhile is told, too.
  std::vector<std::string> left() const;
  /// Kills all of them until none is left, or until ten seconds have passed.
  void kill_all() const;

 private:
  std::set<std::string> listening() const;

  std::string mark_;
  struct host {
    std::filesystem::path folder;
    process_id node;  ///< the standing node
  };
  std::vector<host> hosts_ = {};
  std::set<pid_t> pids_;
  std::set<std::string> sockets_;                ///< inodes of those that listened
  std::set<std::filesystem::path> memory_ = {};  ///< below /dev/shm
};

/// What a run that has ended has left in its folders, in words: sockets, credentials, files that
/// are half written, and whatever stands in `temporary`, which nobody else used.
std::vector<std::string> files_left(const std::filesystem::path& run,
                                    const std::filesystem::path& save,
                                    const std::filesystem::path& temporary);

/// The same of the folder of a standing node, which has its credentials for as long as it stands.
/// `run_id`: of the run that has ended.
std::vector<std::string> files_left_by_host(const std::filesystem::path& folder,
                                            const std::string& run_id);

/// The same of shared memory whose name begins with that of the run.
std::vector<std::string> segments_left(const std::string& run_id);

}  // namespace troupe::runtime
