// A process's part of one group: its own ranks, and how it sees the others.

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

/// What all ranks of a group say alike when they join it.
struct window_group_description {
  std::string name;  ///< of one generation no two are equal
  axis along = axis::data;
  generation_id generation = {};
  std::vector<std::string> homes = {};  ///< of each rank the address of its process
  /// What each rank is called by who looks for one that hangs (device/lane_board.hpp); none: "rank
  /// 1 of dp0".
  std::vector<std::string> members = {};
};

struct window_tuning {
  std::chrono::microseconds spin{20};  ///< how long a wait looks before it sleeps
  std::int64_t piece = 256 << 10;      ///< most bytes of one array that are summed at a time
  std::int64_t cache = 512 << 10;      ///< of all arrays together, so that they stay in the cache
  std::int64_t stretch = 4 << 20;      ///< most bytes that are moved before a token is looked at
  int ahead = 4;                       ///< pieces that a distant process is asked for at once
};

/// Meetings of ranks, and who may read what meanwhile. A rank's own functions are called by its
/// thread, the others by any.
///
/// WINDOW-1  A rank's arrays are read by others and written by nobody but itself.
/// WINDOW-2  A call in which bytes were read ends well only when everybody has arrived at its last
///           meeting and, as seen after that, nobody had left by then: so nothing that was read of
///           a rank which has left, be it garbage, is in the result of a call that ended well.
/// WINDOW-3  Who is told that a call has failed may free its arrays at once: threads of its own
///           process no longer read them, and other processes read by the kernel, which refuses
///           what is not mapped, or where they have mapped it themselves, which stays.
/// WINDOW-4  Whoever waits is released as soon as its token is set, or a process that has ranks of
///           the group is lost: no wait depends on the one who is gone.
class window_group final : public awaited, public std::enable_shared_from_this<window_group> {
 public:
  struct home {
    std::uint64_t process = 0;
    std::shared_ptr<window_wire> wire;  ///< null: here
  };

  /// `board` and `memory` are null where nobody maps them. `homes` is of each rank. `counters`: of
  /// all groups of the process.
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
  /// Other processes map arrays of windows::allocate.
  bool maps_arrays() const;
  /// An array to be offered, with where others can map it.
  window_array placed(window_array x) const;
  int size() const { return int(homes_.size()); }
  bool is_here(int rank) const { return homes_[std::size_t(rank)].wire == nullptr; }
  window_wire& wire_of(int rank) const { return *homes_[std::size_t(rank)].wire; }

  /// Once for each rank of this process. Throws broken_promise (WINDOW-5).
  void join(int rank, const cancel_token& until);
  /// Comes no more. Others may still look how far it was. With the last rank of this process the
  /// arrays of others are mapped no more: who has died would keep its memory here.
  void part(int rank);

  // A rank's own:

  /// Comes to a call; the text is for who asks what it was at.
  void begin(int rank, const collective_call& call);
  /// Arrives at the first meeting of a call, with what it brings, and returns when everybody has,
  /// though he may have left since. Throws `cancelled`, and io_error: whose process is gone.
  void meet(int rank, const window_offer& offer);
  /// The same of a later meeting: everybody is there, or has gone on from there, and has not left.
  void meet(int rank);
  /// Returns when `holds`. Throws as `meet` does.
  void await(int rank, const std::function<bool()>& holds, wait_reason why);
  /// Throws as `meet` does, without waiting.
  void check(int rank);
  /// For as long as it waits the rank that it needs has left: returns never, throws as `meet` does.
  [[noreturn]] void await_release(int rank);
  /// The call has failed: nobody of this process reads the arrays of this rank any more, and nobody
  /// meets it again.
  void leave(int rank);
  /// Rounds at which it has arrived.
  std::uint64_t rounds(int rank) const { return local(rank).rounds; }
  /// What a rank anywhere has brought to the meeting at which all have arrived last.
  window_offer offer(int rank, int of);

  /// For the time of its life this rank can read the arrays of the ranks of this process.
  class reading {
   public:
    reading(window_group& of, int rank);
    ~reading();
    reading(const reading&) = delete;
    reading& operator=(const reading&) = delete;

   private:
    window_group& of_;
  };

  // Anybody's:

  /// The bytes of a rank of this process, for another one. False: it has left, or offers no such
  /// bytes.
  bool copy_out(int rank,
                std::uint64_t round,
                std::size_t array,
                std::int64_t begin,
                std::span<std::byte> to);
  /// Everybody of this process who waits in this group is released, with this cause.
  void lose(std::uint64_t process, const std::string& why);
  /// Something has changed that somebody may wait for.
  void wake();
  /// In what call a rank of this process waits, and who has not arrived there.
  wait_report missing(std::uint64_t rank) const override;

 private:
  struct member {
    cancel_token until;
    std::shared_ptr<void> waker;
    window_bell own_bell = {};
    std::atomic<window_bell*> bell = nullptr;  ///< null before it has joined
    int channel = -1;
    std::atomic<std::uint64_t> rounds = 0;
    std::atomic<bool> left = false, joined = false;
    collective_call call = {};  ///< at which it is; its ends are not looked at
    window_offer offers[2];
    std::uint64_t offered[2] = {};  ///< the rounds of the offers
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
  std::atomic<int> present_ = 0;     ///< ranks of this process that have joined, and not parted
  std::vector<window_wire*> wires_;  ///< each once
  std::map<int, std::unique_ptr<member>> members_;
  mutable std::mutex mutex_;
  wait_condition changed_;
  int readers_ = 0;
  bool left_ = false;  ///< somebody of this process
  std::atomic<bool> is_lost_ = false;
  std::string lost_;  ///< who and why; written once
};

/// By which processes find each other's ranks: the name and the generation.
std::string key_of(const window_group_description& x);

}  // namespace troupe::runtime
