// Loans: a redeemer on the same host reads a tensor directly from the holder's memory.
//
// The holder lends bytes and sends their address. The redeemer reads the bytes and then the guard
// beside them. While the guard holds the loan's serial, the bytes are the deposited ones. The
// holder changes the guard before it releases the bytes, whether the redeemer has confirmed or its
// connection was lost. So a redeemer that was stopped, or a new process with the holder's pid,
// cannot take other bytes for a tensor (LOAN-1). After the end of its generation a holder may
// overwrite memory that is still lent. The redeemer's generation has ended before (MEMBER-1), so it
// discards what it has read.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace troupe::runtime {

enum class peer_number : std::uint64_t;

/// Addresses in the holder's process.
struct lent_place {
  std::int64_t pid = 0;
  std::uint64_t at = 0;      ///< address of the first byte
  std::uint64_t guard = 0;   ///< address of 8 bytes
  std::uint64_t serial = 0;  ///< the guard's value while the bytes are lent; never 0

  friend bool operator==(const lent_place&, const lent_place&) = default;
};

/// The holder's side. Any thread.
class lender {
 public:
  lender();
  ~lender();
  lender(const lender&) = delete;
  lender& operator=(const lender&) = delete;

  /// Lends to a peer, for its fetch of that number. Releases `keep` when the loan has ended.
  lent_place lend(peer_number to,
                  std::uint64_t fetch,
                  const std::byte* at,
                  std::shared_ptr<const void> keep);
  /// Ends a loan; returns its `keep`, or null when there is no such loan.
  std::shared_ptr<const void> end(peer_number to, std::uint64_t fetch);
  /// Ends all loans of that peer.
  void end_all(peer_number of);
  std::size_t size() const;

 private:
  struct loan {
    std::atomic<std::uint64_t>* guard;
    std::shared_ptr<const void> keep;
  };
  using loans = std::map<std::pair<peer_number, std::uint64_t>, loan>;

  void free(loan& x);

  mutable std::mutex mutex_;
  std::uint64_t next_serial_;
  std::deque<std::atomic<std::uint64_t>> guards_;  ///< a deque keeps their addresses stable
  std::vector<std::atomic<std::uint64_t>*> free_;
  loans loans_;
};

enum class lent_bytes {
  there,   ///< read, and valid
  gone,    ///< the guard no longer has that serial
  unread,  ///< the system refused; `failure` is errno
};
struct lent_reading {
  lent_bytes bytes = lent_bytes::there;
  int failure = 0;
};

/// The redeemer's side: reads lent bytes from offset `begin` on.
lent_reading read_lent(const lent_place& x, std::uint64_t begin, std::span<std::byte> into);

}  // namespace troupe::runtime
