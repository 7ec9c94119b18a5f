// Collectives between processes, for host memory.
//
// Once per process, before its address is published:
//
//   windows mine({.process = 7, .make_wire = by_ucx});
//   tell_supervisor(mine.address());
//
// Then once for each generation, group and rank of this process. `homes` has, for each rank of the
// group, the address that its process published:
//
//   const auto group = mine.join({"dp0", axis::data, generation, homes}, rank, token);
//   group->all_reduce_sum(stream, dtype::f32, parts, to, n);  // on the rank's lane
//
// When another process has died, call `mine.release(9, "killed by signal 9")`. When the generation
// ends, call `token.cancel()`. The ranks then destroy their communicators; joining a group of a
// later generation drops the old ones.
//
// Ranks publish their arrays for the duration of a call. The others read what they need and add it
// themselves, in rank order. On one host they read each other's memory (shared_wire.hpp), otherwise
// by messages (distant_wire.hpp). See docs/protocol/windows.md for the protocol and
// docs/decisions/0023-windows.md for the reasons.

#pragma once

#include "runtime/collective/window/exchange.hpp"
#include "runtime/collective/window/shared_wire.hpp"

namespace troupe::runtime {

struct window_settings {
  std::uint64_t process = 0;              ///< unique in a run and never reused
  bool shared_memory = true;              ///< share memory with processes of this host
  window_exchange::maker make_wire = {};  ///< optional if all processes share memory
  window_tuning tuning = {};
  /// Called on the wire's thread when a connection to a process that was not released breaks. The
  /// generation_id is that of the newest local group.
  std::function<void(std::uint64_t process, generation_id, const std::string& why)> broke = {};
};

/// A process's end of all its groups. Any thread. Must outlive the communicators of `join`. With a
/// wire, destroy it only after all processes have finished their last call, as the control plane
/// reports: unsent messages are dropped.
class windows {
 public:
  /// Throws io_error, and input_error for an invalid tuning.
  explicit windows(const window_settings& settings);
  ~windows();
  windows(const windows&) = delete;
  windows& operator=(const windows&) = delete;

  std::string address() const;

  /// Memory for large arrays that are often summed and gathered, such as gradient buckets. Other
  /// processes of the host read it in place; other memory is copied piece by piece through the
  /// kernel. Ordinary memory without shared memory. Blocks may outlive this object. Throws
  /// io_error.
  memory_block allocate(std::size_t bytes);

  /// Like allocate, for a pool (memory_pool::share_by). Returns null if the system refuses. May
  /// outlive this object.
  memory_source source() const;

  /// Totals over all groups.
  const window_counters& counters() const { return *counters_; }

  /// Creates the communicator of a local rank, without waiting; other ranks may join later. Setting
  /// `until`, from any thread, ends every wait of the rank with `cancelled`. All ranks describe the
  /// group alike (WINDOW-7). Drops groups of earlier generations that are not in use. Throws
  /// io_error if the processes cannot reach each other or one was lost, and input_error for an
  /// invalid group.
  std::unique_ptr<communicator> join(const window_group_description& what,
                                     int rank,
                                     const cancel_token& until);

  /// Declares a process dead or unreachable. All local ranks that are in a call of a group with it,
  /// or start one, get io_error with `why`, and joining such a group fails. A replacement process
  /// has another number.
  ///
  /// A broken wire does the same by itself, for its generation only: the next one uses new
  /// connections (LINK-1). Shared memory does not report a dead owner unless it is read. So the
  /// component that starts and reaps processes must call this. Repeated calls do nothing.
  void release(std::uint64_t process, const std::string& why);

  /// Closes all connections to a living process after one of them broke. Groups of the next
  /// generation use new connections, unless the process was released. Call it in both processes
  /// before either starts that generation: otherwise a late message of an old connection would
  /// break the new generation too (LINK-1).
  void renew_connections(std::uint64_t process, const std::string& why);

 private:
  std::shared_ptr<window_group> group_of(const window_group_description& what);
  std::vector<window_group::home> homes_of(const window_group_description& what,
                                           const std::string& key);
  void require_alive(std::uint64_t process, const std::string& group) const;
  std::shared_ptr<shared_memory_peer> peer_of(const window_address& where);
  void retire(generation_id before);
  struct loss {
    std::string why;
    bool heals = false;  ///< recovers in the next generation: its process was not released
  };
  void lose(std::uint64_t process, const loss& how);
  void break_off(std::uint64_t process, const std::string& why);
  void begin(generation_id x);

  const window_settings settings_;
  window_address address_;
  std::shared_ptr<window_board> board_;
  std::shared_ptr<shared_memory> memory_;
  const std::shared_ptr<window_counters> counters_ = std::make_shared<window_counters>();
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<window_group>> groups_;  ///< until a later generation
  std::map<std::uint64_t, std::shared_ptr<shared_memory_peer>> peers_;
  std::map<std::uint64_t, loss> lost_;
  generation_id newest_ = {};  ///< newest generation joined
  std::unique_ptr<window_exchange> exchange_;
};

}  // namespace troupe::runtime
