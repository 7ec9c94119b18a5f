// Parts of a launch that its processes and the command with a host file share: the nodes that a
// process starts, its signals, and the flags that a launch decides.

#pragma once

#include "actors/command/attended_node.hpp"
#include "actors/command/flags.hpp"
#include "actors/command/signals.hpp"

#include <chrono>
#include <cstdint>
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
  /// One on this host, at this numeric address; port 0: any.
  void start_here(const std::string& address,
                  std::uint16_t port,
                  const std::filesystem::path& credentials,
                  const training_flags& flags);
  /// Throws as attended_node::address.
  std::vector<std::string> addresses(std::chrono::milliseconds at_most,
                                     const std::function<bool()>& stop);
  bool empty() const { return all_.empty(); }
  /// Waits until all have ended by themselves, at most 20 s; those that have not served a run end
  /// now. `goes_on`: other hosts may continue the run, so it waits without limit.
  void wait_after_run(bool goes_on = false);
  /// Any thread.
  void end_at_once();

 private:
  scratch_folder folder_;
  std::mutex mutex_;  ///< of the list, not of its nodes
  std::vector<attended_node> all_;
};

/// "10.0.0.1:7000", "[::1]:7000"; port 0: any.
std::string port_at(const std::string& address, std::uint16_t port = 0);

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

/// Set number of workers or processes, unless the user has. `workers`: of each host. Throw
/// usage_error for too many workers, and for processes that the hosts cannot share.
void decide_workers(training_flags& flags, const std::vector<int>& workers);
/// Returns the processes of each host, in proportion to its workers; empty: equally many, because
/// `workers` are equal, or because another number of workers is given that has no such proportion.
std::vector<int> decide_processes(training_flags& flags, const std::vector<int>& workers);

/// Gives the run its nodes, as if --nodes named them. `processes`: of each node; empty: equally
/// many.
void give_nodes(training_flags& flags,
                const std::vector<std::string>& nodes,
                std::vector<launched_host> hosts,
                const std::filesystem::path& credentials,
                const std::vector<int>& processes);

}  // namespace troupe::command
