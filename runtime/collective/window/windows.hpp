// Collectives between processes, for memory of the host.
//
//   windows mine({.process = 7, .make_wire = by_ucx});
//   ... mine.address() travels by the control plane, and the others' come the same way ...
//   auto group = mine.join({.name = "dp0", .along = axis::data, .generation = g, .homes = all}, 2,
//   token); group->all_reduce_sum(stream, dtype::f32, parts, to, n);
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
};

/// A process's end of all groups that it has ranks in. Any thread. It outlives what `join` gives,
/// and its memory stays until everybody has ended his last call: a barrier, and then a word by the
/// control plane.
class windows {
 public:
  /// Throws io_error.
  explicit windows(const window_settings& settings);
  ~windows();
  windows(const windows&) = delete;
  windows& operator=(const windows&) = delete;

  std::string address() const;

  /// Makes the end of a rank that lives here; waits for nobody. Once `until` is set, which any
  /// thread may do, every wait of the rank ends with `cancelled`. Throws io_error: the processes
  /// cannot reach each other, or one of them was lost; input_error: what cannot be a group.
  std::shared_ptr<communicator> join(const window_group_description& what,
                                     int rank,
                                     const cancel_token& until);

  /// The process has died or does not answer: everybody here who waits in a group with it is told
  /// at once, with io_error; nobody joins one any more.
  void release(std::uint64_t process, const std::string& why);

 private:
  std::shared_ptr<window_group> group_of(const window_group_description& what);
  std::vector<window_group::home> homes_of(const window_group_description& what,
                                           const std::string& key);
  std::shared_ptr<shared_memory_peer> peer_of(const window_address& where);
  void retire(generation_id before);

  const window_settings settings_;
  window_address address_;
  std::shared_ptr<window_board> board_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<window_group>> groups_;  ///< until a later generation
  std::map<std::uint64_t, std::shared_ptr<shared_memory_peer>> peers_;
  std::map<std::uint64_t, std::string> lost_;
  std::unique_ptr<window_exchange> exchange_;
};

}  // namespace troupe::runtime
