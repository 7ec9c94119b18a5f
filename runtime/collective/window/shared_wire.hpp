// A wire to a process of the same host: reads offers from its board, and arrays through the kernel.

#pragma once

#include "runtime/collective/window/board.hpp"
#include "runtime/collective/window/wire.hpp"

#include <atomic>
#include <map>
#include <mutex>

namespace troupe::runtime {

/// Another process with an open board; shared by all groups.
struct shared_memory_peer {
  explicit shared_memory_peer(window_address there) : where(std::move(there)) {}
  ~shared_memory_peer();
  shared_memory_peer(const shared_memory_peer&) = delete;
  shared_memory_peer& operator=(const shared_memory_peer&) = delete;

  /// True while the process of `where` lives, so that its pid is not reused.
  bool lives() const;

  window_address where;
  std::shared_ptr<window_board> board;
  int handle = -1;        ///< process handle (pidfd_open)
  bool may_read = false;  ///< the kernel allows this process to read its memory
};

/// Opens the board and tests access to the memory. Throws io_error.
std::shared_ptr<shared_memory_peer> open_peer(const window_address& where);

/// Uses `distant`, which may be null, if the kernel refuses access to memory.
///
/// Maps arrays of windows::allocate and sums them in place. Copies pieces of other arrays by
/// process_vm_readv. The other process may free an array meanwhile: then the bytes are meaningless
/// or missing, and the call fails (WINDOW-2). The call also fails if the process has died and
/// another process with its pid was read (WINDOW-8).
class shared_wire final : public window_wire {
 public:
  shared_wire(std::shared_ptr<shared_memory_peer> peer,
              std::string group,
              const std::vector<int>& ranks,
              std::shared_ptr<window_wire> distant);

  std::uint64_t rounds(int rank) override;
  bool has_left(int rank) override;
  std::optional<window_offer> offer(int rank, std::uint64_t round) override;
  void tell(int rank, std::uint64_t rounds, bool left, const window_offer* offer) override;
  std::shared_ptr<const std::byte> map(const window_array& of) override;
  void unmap() override;
  bool maps_arrays() const override { return true; }
  void begin(window_read& x) override;
  bool is_ready(const window_read& x) override;
  bool finish(window_read& x) override;
  bool reads_at_once() const override { return peer_->may_read; }

 private:
  /// A rank of the other process; channel and serial are set once it has joined.
  struct member {
    int rank = 0;
    std::atomic<int> channel = -1;
    std::atomic<std::uint64_t> serial = 0;
  };
  member& of(int rank);
  window_progress look(int rank);

  std::shared_ptr<shared_memory_peer> peer_;
  std::string group_;
  std::vector<std::unique_ptr<member>> members_;
  std::shared_ptr<window_wire> distant_;
  struct mapping {
    std::shared_ptr<const std::byte> at;
    std::uint64_t used = 0;
  };
  std::mutex mutex_;
  std::map<std::uint64_t, mapping> mapped_;  ///< by inode, least recently used are dropped
  std::uint64_t uses_ = 0;
};

}  // namespace troupe::runtime
