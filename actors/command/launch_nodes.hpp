// Parts of a launch that its processes and the command with a host file share: the nodes that a
// process starts, its signals, and the flags that a launch decides.

#pragma once

#include "actors/command/attended_node.hpp"
#include "actors/command/flags.hpp"
#include "actors/command/signals.hpp"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe::command {

constexpr int launch_refused = 2, run_lost = 3;  // exit codes

/// A folder that is removed with this object.
class scratch_folder {
 public:
  scratch_folder();
  ~scratch_folder();
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
};

/// The nodes that this process has started. One thread, except where noted.
class own_nodes {
 public:
  own_nodes() = default;
  /// Asks all to end, before the destructor of each waits.
  ~own_nodes() { end_at_once(); }
  own_nodes(const own_nodes&) = delete;
  own_nodes& operator=(const own_nodes&) = delete;

  /// `host`: for messages. `credentials`: their folder; empty without. Throws as attended_node and
  /// read_credentials.
  void start(const std::string& host,
             const std::vector<std::string>& command,
             const std::filesystem::path& credentials);
  /// One on this host, at this numeric address.
  void start_here(const std::string& address,
                  const std::filesystem::path& credentials,
                  const training_flags& flags);
  /// Throws as attended_node::address.
  std::vector<std::string> addresses(std::chrono::milliseconds at_most,
                                     const std::function<bool()>& stop);
  bool empty() const { return all_.empty(); }
  /// Waits until all have ended by themselves; those that have not served a run end now. After a
  /// loss (exit code 3) another host may continue the run: then it waits for that end.
  void wait_after_run(int exit_code);
  /// Any thread.
  void end_at_once();

 private:
  scratch_folder folder_;
  std::mutex mutex_;  ///< of the list, not of its nodes
  std::vector<attended_node> all_;
};

/// "10.0.0.1:0", "[::1]:0": any port there.
std::string any_port_at(const std::string& address);

/// The first signal of a process of a launch is passed on, the second one ends its nodes and the
/// process at once. Construct it before other threads.
class launch_signals {
 public:
  explicit launch_signals(own_nodes& nodes);
  bool have_come() const { return !name().empty(); }
  std::string name() const;
  /// Passes the first signal on, also one that has come; empty: to no one. Returns when no call
  /// runs.
  void pass_to(std::function<void(const std::string& name)> take);
  /// Leaves later signals to the run. True if one has come.
  bool end_of_watch() {
    watch_.reset();
    return have_come();
  }

 private:
  void first(const char* name);

  mutable std::mutex mutex_;
  std::string name_;
  std::function<void(const std::string&)> take_;
  std::optional<signal_watch> watch_;
};

void tell_stopped();

std::chrono::milliseconds launch_patience(const training_flags& flags);

/// Sets number of workers or processes, unless the user has. Throws usage_error for too many
/// workers, and for processes that the hosts cannot share equally.
void decide_workers(training_flags& flags, std::size_t workers);
void decide_processes(training_flags& flags, std::size_t hosts);

/// Gives the run its nodes, as if --nodes named them.
void give_nodes(training_flags& flags,
                const std::vector<std::string>& nodes,
                const std::filesystem::path& credentials);

}  // namespace troupe::command
