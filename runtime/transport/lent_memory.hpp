// Tensors that a redeemer on the same host reads where they lie, instead of being sent them.
//
// The holder lends bytes and says where they stand; the redeemer reads them, and then the guard
// beside them. While the guard has the loan's serial the bytes are what was deposited: the holder
// changes it before it lets go of them, whether the redeemer has said that it has read them or its
// connection was lost. So a redeemer that was stopped, or a process that has come to the holder's
// pid, never takes other bytes for a tensor (LOAN-1). A holder may write on in memory that it still
// lends when its generation has ended: the redeemer's has ended before (MEMBER-1), and it then
// believes nothing that it has read.

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

/// As the holder's process sees it.
struct lent_place {
  std::int64_t pid = 0;
  std::uint64_t at = 0;      ///< address of the first byte
  std::uint64_t guard = 0;   ///< address of 8 bytes
  std::uint64_t serial = 0;  ///< what they are while the bytes are lent; never 0

  friend bool operator==(const lent_place&, const lent_place&) = default;
};

/// The holder's side. Any thread.
class lender {
 public:
  lender();
  ~lender();
  lender(const lender&) = delete;
  lender& operator=(const lender&) = delete;

  /// To that peer, for what it calls that fetch. `keep` is let go when the loan has ended.
  lent_place lend(peer_number to,
                  std::uint64_t fetch,
                  const std::byte* at,
                  std::shared_ptr<const void> keep);
  /// Ends it; what kept the bytes, or null: there is no such loan.
  std::shared_ptr<const void> end(peer_number to, std::uint64_t fetch);
  /// Ends all of that peer.
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
  std::deque<std::atomic<std::uint64_t>> guards_;  ///< they stay where they are
  std::vector<std::atomic<std::uint64_t>*> free_;
  loans loans_;
};

enum class lent_bytes {
  there,   ///< read, and they are the tensor's
  gone,    ///< the guard was read, and is not that loan's any more
  unread,  ///< the system does not give them: `failure` says why
};
struct lent_reading {
  lent_bytes bytes = lent_bytes::there;
  int failure = 0;
};

/// The redeemer's side: a stretch of what is lent, from `begin` bytes behind its first one.
lent_reading read_lent(const lent_place& x, std::uint64_t begin, std::span<std::byte> into);

}  // namespace troupe::runtime
