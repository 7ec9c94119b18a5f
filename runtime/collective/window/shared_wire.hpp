// To a process of the same host: its board says what its ranks offer, its memory is read by the
// kernel.

#pragma once

#include "runtime/collective/window/board.hpp"
#include "runtime/collective/window/wire.hpp"

#include <atomic>
#include <map>
#include <mutex>

namespace troupe::runtime {

/// One other process whose board is open; shared by all groups.
struct shared_memory_peer {
  explicit shared_memory_peer(window_address there) : where(std::move(there)) {}
  ~shared_memory_peer();
  shared_memory_peer(const shared_memory_peer&) = delete;
  shared_memory_peer& operator=(const shared_memory_peer&) = delete;

  /// The process to which `where` belongs lives, so nobody else has its pid.
  bool lives() const;

  window_address where;
  std::shared_ptr<window_board> board;
  int handle = -1;        ///< of the process (pidfd_open)
  bool may_read = false;  ///< the kernel lets this process read that one's memory
};

/// Opens the board and tries the memory. Throws io_error.
std::shared_ptr<shared_memory_peer> open_peer(const window_address& where);

/// Reads by `distant`, which may be null, where the kernel refuses memory.
///
/// Arrays of windows::allocate are mapped, and summed where they lie. Of any other a piece is
/// copied once, from the array there to its place here, by process_vm_readv. Nothing keeps the
/// other process from freeing the array meanwhile: then bytes are read that mean nothing, or none,
/// and the call never ends well (WINDOW-2). Nor does it when the process has died, and another one
/// that has its pid was read (WINDOW-8).
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
  /// Found once it has joined; its membership has that serial.
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
  std::map<std::uint64_t, mapping> mapped_;  ///< by inode, the last few that were used
  std::uint64_t uses_ = 0;
};

}  // namespace troupe::runtime
