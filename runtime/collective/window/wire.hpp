// This process's view of a group's ranks in one other process.
//
// Implementations: shared_wire.hpp, if both can read each other's memory, and distant_wire.hpp, by
// messages. A group may use both.

#pragma once

#include "runtime/collective/window/offer.hpp"

#include <memory>

namespace troupe::runtime {

/// A read of a piece of an array that a rank of the other process has offered.
struct window_read {
  int rank = 0;
  std::uint64_t round = 0;        ///< round of the offer
  std::size_t array = 0;          ///< index in the offer
  const std::byte* at = nullptr;  ///< address of the array in the other process
  std::int64_t begin = 0;         ///< first byte within the array
  std::span<std::byte> into;
  std::shared_ptr<void> under_way = {};  ///< private to the wire
};

/// A rank's round counts its arrivals at meetings. Calls for one rank come from one thread at a
/// time; no function waits for another process.
class window_wire {
 public:
  virtual ~window_wire() = default;

  /// Number of rounds at which the rank has arrived, as far as known here; 0 before it joins.
  virtual std::uint64_t rounds(int rank) = 0;
  /// True if the rank was released or has failed: its arrays may be gone. Known here before a read
  /// fails for that reason.
  virtual bool has_left(int rank) = 0;
  /// The rank's offer at this round, at which it has arrived; empty if it has left since.
  virtual std::optional<window_offer> offer(int rank, std::uint64_t round) = 0;

  /// Reports that a local rank has arrived (with or without an offer) or has left.
  virtual void tell(int rank, std::uint64_t rounds, bool left, const window_offer* offer) = 0;

  /// The mapped array, or null if it must be read. After the rank has left, the content is
  /// meaningless but still readable (WINDOW-2).
  virtual std::shared_ptr<const std::byte> map(const window_array& of) = 0;
  /// Drops mappings that are not in use.
  virtual void unmap() {}
  /// True if the other process maps arrays too.
  virtual bool maps_arrays() const { return false; }

  /// A read has three steps: begin, is_ready, finish. Several reads may be pending. An abandoned
  /// read does not write to `into`.
  virtual void begin(window_read& x) = 0;
  virtual bool is_ready(const window_read& x) = 0;
  /// True if the bytes arrived; false if the rank has left, so they are meaningless (WINDOW-2).
  /// Throws io_error if the process is gone or the system refuses.
  virtual bool finish(window_read& x) = 0;
  /// True if the whole cost of a read is in `finish`, so beginning early has no benefit.
  virtual bool reads_at_once() const = 0;
};

}  // namespace troupe::runtime
