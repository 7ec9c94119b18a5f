// Collectives between processes, for memory of the host.
//
// Once for each process, before anybody is told where it is:
//
//   windows mine({.process = 7, .make_wire = by_ucx});
//   tell_supervisor(mine.address());
//
// For each generation, group and rank that lives here, where `homes` has of each rank of the group
// the address that its process told:
//
//   const auto group = mine.join({"dp0", axis::data, generation, homes}, rank, token);
//   group->all_reduce_sum(stream, dtype::f32, parts, to, n);  // on the rank's lane
//
// When another process has died, `mine.release(9, "killed by signal 9")`; when the generation ends,
// `token.cancel()`. The ranks let go of their groups, and joining one of a later generation drops
// the old.
//
// Ranks publish their arrays for the time of a call; the others read what they need and add it up
// themselves, in rank order. On one host they read each other's memory by the kernel
// (shared_wire.hpp), otherwise by messages (distant_wire.hpp). docs/protocol/windows.md tells how a
// call goes, docs/decisions/0023-windows.md why this way.

#pragma once

#include "runtime/collective/window/exchange.hpp"
#include "runtime/collective/window/shared_wire.hpp"

namespace troupe::runtime {

struct window_settings {
  std::uint64_t process = 0;              ///< no two of a run are equal, and none comes again
  bool shared_memory = true;              ///< with others of this host
  window_exchange::maker make_wire = {};  ///< none: all are on this host, and may be read
  window_tuning tuning = {};
  /// Told of a connection that broke although nobody has released its process, with the newest
  /// generation of a group here: on the wire's thread.
  std::function<void(std::uint64_t process, generation_id, const std::string& why)> broke = {};
};

/// A process's end of all groups that it has ranks in. Any thread. It outlives what `join` gives.
/// With a wire it stays until everybody has ended his last call, as the control plane tells: what
/// it has said but not sent is dropped with it.
class windows {
 public:
  /// Throws io_error, and input_error: a tuning that cannot be.
  explicit windows(const window_settings& settings);
  ~windows();
  windows(const windows&) = delete;
  windows& operator=(const windows&) = delete;

  /// One word, a plain value.
  std::string address() const;

  /// Memory for arrays that are summed and gathered often and large, as gradient buckets are: other
  /// processes of the host add them up where they lie, whereas other memory is first read piece by
  /// piece by the kernel. Ordinary where no memory is shared. Blocks may outlive this. Throws
  /// io_error.
  memory_block allocate(std::size_t bytes);

  /// The same for a pool (memory_pool::share_by): null when the system refuses. It may outlive
  /// this.
  memory_source source() const;

  /// Of all groups since the beginning.
  const window_counters& counters() const { return *counters_; }

  /// Makes the end of a rank that lives here; waits for nobody, and the others may join later. Once
  /// `until` is set, which any thread may do, every wait of the rank ends with `cancelled`. All
  /// ranks of a group describe it alike (WINDOW-7). What one process keeps of groups of earlier
  /// generations is dropped, but for those that somebody still holds. Throws io_error: the
  /// processes cannot reach each other, or one of them was lost; input_error: what cannot be a
  /// group.
  std::unique_ptr<communicator> join(const window_group_description& what,
                                     int rank,
                                     const cancel_token& until);

  /// The process has died or does not answer: everybody here who is in a call of a group with it,
  /// or comes to one, is told at once, with io_error that says `why`; nobody joins one any more.
  /// Who comes in its place has another number. A wire that breaks says the same by itself, for the
  /// generation: groups of the next one are joined over a new connection (LINK-1). Of
  /// shared memory nobody hears that its owner is gone, unless it reads, so whoever starts and
  /// reaps the processes must say so. The second time it does nothing.
  void release(std::uint64_t process, const std::string& why);

  /// Closes all connections with a process that lives, of which one broke: groups of the next
  /// generation are joined over new ones, unless it was released. At both processes before either
  /// begins that generation: else what one of them hears of late would break it, too (LINK-1).
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
    bool heals = false;  ///< with the next generation: its process was not released
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
  generation_id newest_ = {};  ///< of a group that was joined
  std::unique_ptr<window_exchange> exchange_;
};

}  // namespace troupe::runtime
