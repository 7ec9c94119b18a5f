// The data planes of a process, and the table of its neighbours: the processes that it exchanges
// messages or tensors with (runtime/job/job_neighbours.hpp).

#pragma once

#include "messages/control/rendezvous.hpp"
#include "runtime/collective/window/windows.hpp"
#include "runtime/core/process_key.hpp"
#include "runtime/transport/wire_transport.hpp"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

/// A broken connection; the process at its other end may live.
struct broken_connection {
  messages::process_name to = {};
  runtime::generation_id generation = {};  ///< in which it was needed
  std::string why;
  bool is_control = false;  ///< carries messages of actors; else it belongs to a data plane
};

/// "connection:1.2" is the connection with incarnation 2 of process 1, in `suspected` and
/// `taken_for_dead`.
std::string name_of_connection(const messages::process_name& to);
/// Empty when the name has another form.
std::optional<messages::process_name> connection_named(const std::string& name);
/// "control:1.2" is the connection with that process that carries messages of actors.
std::string name_of_control_connection(const messages::process_name& to);
std::optional<messages::process_name> control_connection_named(const std::string& name);

/// The inverse of process_name::key.
inline messages::process_name process_by_key(std::uint64_t key) {
  return {runtime::process_of_key(key), runtime::incarnation_of_key(key)};
}

/// Reports broken connections with other processes to one listener. Any thread. The listener is
/// called without a lock; a replaced listener may be called for a moment longer.
class broken_connections {
 public:
  using hearer = std::function<void(const broken_connection&)>;
  /// Replaces the listener. The last break without a listener is reported now.
  void tell_to(hearer x);
  void tell(const broken_connection& x);

 private:
  std::mutex mutex_;
  hearer hearer_;
  std::optional<broken_connection> untold_;
};

/// Any thread. Simulations substitute their own class.
class neighbours {
 public:
  /// `windows` is null in a process without ranks.
  neighbours(messages::process_name self,
             std::shared_ptr<runtime::wire_transport> transport,
             std::shared_ptr<runtime::windows> windows,
             std::shared_ptr<broken_connections> broken = nullptr);
  virtual ~neighbours() = default;

  const messages::process_name& self() const { return self_; }
  /// The addresses of this process's data planes; the control plane's is not filled in.
  messages::process_address address() const;

  /// Makes tickets of that process redeemable and groups with its ranks joinable here. A newer
  /// incarnation replaces the previous one.
  void introduce(const messages::process_address& x);
  /// Introduces these, and closes the data connections with all others. Call it between two
  /// generations. Members of a group stay neighbours for a whole run.
  void use_only(const std::vector<messages::process_address>& all);
  bool knows(int process) const;
  /// Fails every wait for it in this process.
  void forget(const messages::process_name& who, const std::string& why);

  /// LINK-1: the process at that place lives, but a connection with it broke. Call it after the end
  /// of the generation; all its connections are then made anew for the next one.
  virtual void renew_connections(int process);

  /// Sets the listener of connections that break while their process lives.
  void when_broken(broken_connections::hearer x);

  using loss_hearer = std::function<void(int process, const std::string& why)>;
  /// Sets the function that `forget` also calls; empty: none. It may be called for a moment longer.
  void when_forgotten(loss_hearer x);

  /// This process had made that connection, and lost it.
  void control_broke(const messages::process_name& with, const std::string& why);

  /// Memory that other processes of this host can map; empty: none.
  runtime::memory_source shared_memory() const;
  /// Counts of bytes from other processes' arrays; null in a process without ranks.
  const runtime::window_counters* taken() const;

  /// Joins a local rank to a group. `processes`: the places in the job that host its ranks. Throws
  /// as windows::join, and io_error when one of them is not known.
  virtual std::unique_ptr<runtime::communicator> join(runtime::window_group_description what,
                                                      const std::vector<int>& processes,
                                                      int rank,
                                                      const runtime::cancel_token& until);

 private:
  const messages::process_name self_;
  const std::shared_ptr<runtime::wire_transport> transport_;
  const std::shared_ptr<runtime::windows> windows_;
  const std::shared_ptr<broken_connections> broken_;  ///< may be null
  mutable std::mutex mutex_;
  std::map<int, messages::process_address> others_;  ///< newest incarnation of each place
  loss_hearer forgotten_;
};

}  // namespace troupe::actors
