// The ranks of a group that live in one other process, as this process sees them.
//
// Two implementations: shared_wire.hpp, where both can read each other's memory, and
// distant_wire.hpp, by messages. A group may have both.

#pragma once

#include "runtime/collective/window/offer.hpp"

#include <memory>

namespace troupe::runtime {

/// A piece of an array that a rank of the other process has offered.
struct window_read {
  int rank = 0;
  std::uint64_t round = 0;        ///< of the offer
  std::size_t array = 0;          ///< of the offer
  const std::byte* at = nullptr;  ///< there
  std::int64_t begin = 0;         ///< bytes from the array's
  std::span<std::byte> into;
  std::shared_ptr<void> under_way = {};  ///< of the wire
};

/// Ranks count rounds: each arrival of theirs at a meeting is one. Calls of one rank come from one
/// thread at a time; nothing here waits for another process.
class window_wire {
 public:
  virtual ~window_wire() = default;

  /// How many rounds the rank has arrived at, as far as is known here; 0 before it has joined.
  virtual std::uint64_t rounds(int rank) = 0;
  /// It was released, or has failed: its arrays may be gone. Known here no later than a read fails
  /// for that.
  virtual bool has_left(int rank) = 0;
  /// What it has brought to this round, at which it has arrived; empty: it has left since.
  virtual std::optional<window_offer> offer(int rank, std::uint64_t round) = 0;

  /// A rank of this process has arrived, with an offer or without, or has left.
  virtual void tell(int rank, std::uint64_t rounds, bool left, const window_offer* offer) = 0;

  /// The array where it lies, if this process can map it; otherwise null, and it is read. What
  /// stands there means nothing once the rank has left (WINDOW-2), but can be read on.
  virtual std::shared_ptr<const std::byte> map(const window_array& of) = 0;
  /// Nothing is kept mapped, but for what somebody still holds of `map`.
  virtual void unmap() {}
  /// The other process maps arrays as this one does.
  virtual bool maps_arrays() const { return false; }

  /// A read has three steps: it begins, is ready, and finishes. Several may be under way. Of one
  /// that is given up nothing is written any more to `into`.
  virtual void begin(window_read& x) = 0;
  virtual bool is_ready(const window_read& x) = 0;
  /// True: the bytes are there. False: the rank has left, so they mean nothing (WINDOW-2). Throws
  /// io_error: its process is gone, or the system refuses.
  virtual bool finish(window_read& x) = 0;
  /// Reading costs nothing before `finish`: so nothing is gained by beginning early.
  virtual bool reads_at_once() const = 0;
};

}  // namespace troupe::runtime
