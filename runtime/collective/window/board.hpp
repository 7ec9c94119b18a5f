// The memory of a process in which its ranks say what they have come for, and which other processes
// of the host map: without a name in any folder, so that nothing is left behind when one is killed.

#pragma once

#include "runtime/collective/window/address.hpp"
#include "runtime/collective/window/bell.hpp"
#include "runtime/collective/window/offer.hpp"

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// How far a rank is; one word, so that it is read as a whole.
struct window_progress {
  std::uint64_t serial = 0;  ///< of its membership; 0: none
  bool left = false;
  std::uint64_t rounds = 0;
};

/// A mapping of one process's board: its own, or another's.
///
/// A rank of a group has a channel: its progress, and what it offers. Only its owner writes there;
/// others map all but the first page, where the bells are, for reading (WINDOW-1).
class window_board {
 public:
  static constexpr int channels = 256;
  static constexpr std::size_t most_name = 111;

  /// Makes a board. Throws io_error.
  static std::shared_ptr<window_board> make();
  /// Opens that of another process. Throws io_error: it is gone, or the system refuses.
  static std::shared_ptr<window_board> open(const window_address& of);
  ~window_board();
  window_board(const window_board&) = delete;
  window_board& operator=(const window_board&) = delete;

  int descriptor() const { return descriptor_; }
  std::uint64_t nonce() const;
  const void* probe() const;  ///< where the nonce lies

  // Of one's own, any thread:

  /// Throws io_error: all are taken, and how many there are. Of those that are free the one that
  /// has been so for longest: others who are late still read how far its last rank was.
  int take(const std::string& group, int rank);
  void give_back(int channel);
  /// The offer is of the last of `rounds`; null: it brings none.
  void post(int channel, std::uint64_t rounds, bool left, const window_offer* offer);

  // Of any:

  /// The channel that a rank has now, and the serial of its membership.
  std::optional<std::pair<int, std::uint64_t>> find(const std::string& group, int rank) const;
  window_progress progress(int channel) const;
  /// Empty: the membership with that serial has ended, or no offer is there.
  std::optional<window_offer> offer(int channel, std::uint64_t serial, std::uint64_t round) const;
  window_bell& bell(int channel);

 private:
  struct first_page;
  struct channel;

  window_board(int descriptor, void* at, bool own);
  first_page& first() const;
  channel& at(int channel) const;

  int descriptor_;
  std::byte* at_;
  std::mutex mutex_;
  std::deque<int> free_;
  std::uint64_t last_serial_ = 0;
};

}  // namespace troupe::runtime
