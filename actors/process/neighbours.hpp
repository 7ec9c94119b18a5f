// The data planes of a process, and the other processes of the run as they know them.

#pragma once

#include "messages/control/rendezvous.hpp"
#include "runtime/collective/window/windows.hpp"
#include "runtime/transport/wire_transport.hpp"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

/// Its process may live.
struct broken_connection {
  messages::process_name to = {};
  runtime::generation_id generation = {};  ///< that it was needed in
  std::string why;
};

/// "connection:1.2": that with the second incarnation of process 1, in `suspected` and
/// `taken_for_dead`.
std::string name_of_connection(const messages::process_name& to);
/// Nothing: it is no name of one.
std::optional<messages::process_name> connection_named(const std::string& name);

/// The inverse of process_name::key.
inline messages::process_name process_by_key(std::uint64_t key) {
  return {int(key >> 32) - 2, std::uint32_t(key)};
}

/// Who is told when a connection of a data plane breaks. Any thread; who hears is called without a
/// lock, and may be for a moment after another one has taken its place.
class broken_connections {
 public:
  using hearer = std::function<void(const broken_connection&)>;
  /// Instead of the one before. What broke last while there was nobody is told now.
  void tell_to(hearer x);
  void tell(const broken_connection& x);

 private:
  std::mutex mutex_;
  hearer hearer_;
  std::optional<broken_connection> untold_;
};

/// Any thread. A simulation has others in its place, between processes that are none.
class neighbours {
 public:
  /// `windows` may be null: of a process without ranks.
  neighbours(messages::process_name self,
             std::shared_ptr<runtime::wire_transport> transport,
             std::shared_ptr<runtime::windows> windows,
             std::shared_ptr<broken_connections> broken = nullptr);
  virtual ~neighbours() = default;

  const messages::process_name& self() const { return self_; }
  /// How the others reach its data planes; its control plane's place is not filled in.
  messages::process_address address() const;

  /// From now on tickets of this process can be redeemed here, and groups joined with its ranks. A
  /// newer incarnation takes the place of the one before.
  void introduce(const messages::process_address& x);
  /// Everybody here who waits for it is told.
  void forget(const messages::process_name& who, const std::string& why);

  /// LINK-1: the process that is known at that place lives, and a connection with it broke. After
  /// the end of the generation: for the next one all are made anew.
  virtual void renew_connections(int process);

  /// Of a connection that breaks by itself, and is made anew for the next generation.
  void when_broken(broken_connections::hearer x);

  /// Memory that the other processes of this host can map; empty: there is none.
  runtime::memory_source shared_memory() const;
  /// What was taken of other processes' arrays; null: of a process without ranks.
  const runtime::window_counters* taken() const;

  /// The end of a rank that lives here in a group whose ranks live in those processes, each by its
  /// place in the job. Throws as windows::join; io_error: one of them is not known.
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
  std::map<int, messages::process_address> others_;  ///< the newest of each place
};

}  // namespace troupe::actors
