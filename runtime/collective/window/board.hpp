// A process's board: shared memory with the progress and offers of its ranks. Other processes of
// the host map it. It is an anonymous file, so nothing is left behind after a kill.

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

/// Progress of a rank; stored in one word and so read atomically.
struct window_progress {
  std::uint64_t serial = 0;  ///< serial number of its membership; 0: none
  bool left = false;
  std::uint64_t rounds = 0;
};

/// A mapping of this process's board or of another one's.
///
/// Each rank of a group has a channel with its progress and its offer. Only the owner writes
/// channels; others map them read-only. The first page, with the bells, is writable for all
/// (WINDOW-1).
class window_board {
 public:
  static constexpr int channels = 256;
  static constexpr std::size_t most_name = 111;

  /// Creates a board. Throws io_error.
  static std::shared_ptr<window_board> make();
  /// Opens another process's board. Throws io_error if the process is gone or the system refuses.
  static std::shared_ptr<window_board> open(const window_address& of);
  ~window_board();
  window_board(const window_board&) = delete;
  window_board& operator=(const window_board&) = delete;

  int descriptor() const { return descriptor_; }
  std::uint64_t nonce() const;
  const void* probe() const;  ///< address of the nonce

  // Called by the owner, on any thread.

  /// Reserves a channel. Throws io_error if all are in use. Prefers the channel that has been free
  /// longest, so that late ranks can still read the progress of its last membership.
  int take(const std::string& group, int rank);
  void give_back(int channel);
  /// Publishes progress, and the offer of round `rounds`; null: no offer.
  void post(int channel, std::uint64_t rounds, bool left, const window_offer* offer);

  // Called by all processes.

  /// The rank's current channel, and the serial number of its membership.
  std::optional<std::pair<int, std::uint64_t>> find(const std::string& group, int rank) const;
  window_progress progress(int channel) const;
  /// Empty if the membership has ended or made no such offer.
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
