// A process's part of one group: its own ranks, and its view of the others.

#pragma once

#include "runtime/collective/window/board.hpp"
#include "runtime/collective/window/wire.hpp"
#include "runtime/core/cancel.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/core/waiting.hpp"
#include "runtime/telemetry/counters.hpp"

#include <functional>
#include <map>
#include <mutex>

namespace troupe::runtime {

/// Description of a group; equal on all ranks.
struct window_group_description {
  std::string name;  ///< unique within a generation
  axis_set along = axis::data;
  generation_id generation = {};
  std::vector<std::string> homes = {};  ///< per rank: address of its process
  /// Names of the ranks for the failure detector (device/lane_board.hpp). Empty: "rank 1 of dp0".
  std::vector<std::string> members = {};
};

struct window_tuning {
  std::chrono::microseconds spin{20};  ///< polling time of a wait before it sleeps
  std::int64_t piece = 256 << 10;      ///< max. bytes of one array that are summed at a time
  std::int64_t cache = 512 << 10;      ///< max. bytes of all arrays together, to stay in the cache
  std::int64_t stretch = 4 << 20;      ///< max. bytes moved between two checks of the token
  int ahead = 4;                       ///< outstanding requests to a distant process
};

/// Meetings of ranks, and the access rules between them. A rank's own thread calls its own
/// functions; any thread calls the others.
///
/// WINDOW-1  Other ranks read a rank's arrays; only the rank itself writes them.
///
/// WINDOW-2  A call that read bytes succeeds only if all ranks arrived at its last meeting and had
/// not left by then. So a successful result never contains bytes read from a rank that had left.
///
/// WINDOW-3  A rank may free its arrays at once after a failed call. Threads of its own process no
/// longer read them. Other processes read through the kernel, which refuses unmapped memory, or
/// through mappings of their own, which stay valid.
///
/// WINDOW-4  A waiting rank is released once its token is set, or once a process with ranks of the
/// group is lost. No wait depends on the lost process.
class window_group final : public awaited, public std::enable_shared_from_this<window_group> {
 public:
  struct home {
    std::uint64_t process = 0;
    std::shared_ptr<window_wire> wire;  ///< null for this process
  };

  /// `board` and `memory` are null without shared memory. `homes` has one entry per rank.
  /// `counters` are those of all groups of the process.
  window_group(window_group_description what,
               std::vector<home> homes,
               std::shared_ptr<window_board> board,
               std::shared_ptr<const shared_memory> memory,
               window_tuning tuning,
               std::shared_ptr<window_counters> counters = std::make_shared<window_counters>());
  ~window_group() override;
  window_group(const window_group&) = delete;
  window_group& operator=(const window_group&) = delete;

  const window_group_description& description() const { return what_; }
  const window_tuning& tuning() const { return tuning_; }
  window_counters& counters() const { return *counters_; }
  /// True if other processes map arrays of windows::allocate.
  bool maps_arrays() const;
  /// Adds to an offered array the place where others can map it.
  window_array placed(window_array x) const;
  int size() const { return int(homes_.size()); }
  bool is_here(int rank) const { return homes_[std::size_t(rank)].wire == nullptr; }
  window_wire& wire_of(int rank) const { return *homes_[std::size_t(rank)].wire; }

  /// Call it once for each rank of this process. Breaks WINDOW-5 or WINDOW-6 otherwise.
  void join(int rank, const cancel_token& until);
  /// Leaves the group; the rank's progress stays readable. The last rank of this process unmaps the
  /// arrays of other processes, because a mapping would keep the memory of a dead process.
  void part(int rank);

  // Called on a rank's own thread:

  /// Starts a call; `call` appears in reports of its waits.
  void begin(int rank, const collective_call& call);
  /// The first meeting of a call: arrives with an offer, and waits until all ranks have arrived,
  /// even if some have left since. Throws `cancelled`, and io_error if a process of the group is
  /// lost.
  void meet(int rank, const window_offer& offer);
  /// A later meeting: waits until each rank has arrived and has not left, or has gone on to the
  /// next round.
  void meet(int rank);
  /// Waits until `holds` is true. Throws as `meet` does.
  void await(int rank, const std::function<bool()>& holds, wait_reason why);
  /// Throws as `meet` does, without waiting.
  void check(int rank);
  /// Waits for this rank's release after a rank that it needs has left. Always throws, as `meet`
  /// does.
  [[noreturn]] void await_release(int rank);
  /// Leaves after a failed call: no thread of this process reads this rank's arrays anymore, and no
  /// later meeting includes it.
  void leave(int rank);
  /// Number of rounds at which the rank has arrived.
  std::uint64_t rounds(int rank) const { return local(rank).rounds; }
  /// Nanoseconds in all waits of the rank.
  std::uint64_t waited_ns(int rank) const { return local(rank).waited_ns; }
  /// The offer of any rank at the last completed meeting.
  window_offer offer(int rank, int of);

  /// While it exists, this rank may read the arrays of this process's ranks.
  class reading {
   public:
    reading(window_group& of, int rank);
    ~reading();
    reading(const reading&) = delete;
    reading& operator=(const reading&) = delete;

   private:
    window_group& of_;
  };

  // Called on any thread:

  /// Copies bytes of a local rank's array for another process. False if the rank has left or offers
  /// no such bytes.
  bool copy_out(int rank,
                std::uint64_t round,
                std::size_t array,
                std::int64_t begin,
                std::span<std::byte> to);
  /// Releases all waiting local ranks of this group, with `why` as the cause.
  void lose(std::uint64_t process, const std::string& why);
  /// Makes waiting ranks check their condition again.
  void wake();
  /// The call that a local rank waits in, and the ranks that have not arrived.
  wait_report missing(std::uint64_t rank) const override;

 private:
  struct member {
    cancel_token until;
    std::shared_ptr<void> waker;
    window_bell own_bell = {};
    std::atomic<window_bell*> bell = nullptr;  ///< null until it joins
    int channel = -1;
    std::atomic<std::uint64_t> rounds = 0;
    std::atomic<bool> left = false, joined = false;
    std::uint64_t waited_ns = 0;
    collective_call call = {};  ///< current call, without its ends
    window_offer offers[2];
    std::uint64_t offered[2] = {};  ///< rounds of the offers
  };

  member& local(int rank) const { return *members_.at(rank); }
  void arrive(int rank, const window_offer* offer);
  bool has_arrived(int rank, std::uint64_t round) const;
  bool has_left(int rank) const;
  wait_reason meeting(int rank) const;
  void tell(int rank, const window_offer* offer);

  const window_group_description what_;
  const std::vector<home> homes_;
  const std::shared_ptr<window_board> board_;
  const std::shared_ptr<const shared_memory> memory_;
  const window_tuning tuning_;
  const std::shared_ptr<window_counters> counters_;
  std::atomic<int> present_ = 0;     ///< local ranks that have joined and not parted
  std::vector<window_wire*> wires_;  ///< without duplicates
  std::map<int, std::unique_ptr<member>> members_;
  mutable std::mutex mutex_;
  wait_condition changed_;
  int readers_ = 0;
  bool left_ = false;  ///< a local rank has left
  std::atomic<bool> is_lost_ = false;
  std::string lost_;  ///< lost process and cause; written once
};

/// Key by which processes match groups: name and generation.
std::string key_of(const window_group_description& x);

}  // namespace troupe::runtime
