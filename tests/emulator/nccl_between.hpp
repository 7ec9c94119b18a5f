// NCCL of the emulated device between processes of this machine.
//
// A world's id names anonymous shared memory of the process that made the id, so nothing remains of
// killed processes. There the ranks announce themselves, and each ordered pair has a mailbox for
// one message: its header, and the address of its bytes in the sender's memory. The receiver reads
// them through the kernel.

#pragma once

#include "tests/emulator/include/nccl.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::emulator {

struct nccl_header {
  int kind = 0;  ///< nccl_kind
  int type = 0;
  int peer = 0;  ///< root of a collective
  std::uint64_t count = 0;
};

class nccl_segment {
 public:
  static constexpr int most_ranks = 16;

  /// Creates a world's memory. `name`: for `open` in any process.
  static std::shared_ptr<nccl_segment> create(std::string& name);
  /// Null if the process that created it is gone.
  static std::shared_ptr<nccl_segment> open(const std::string& name);
  ~nccl_segment();
  nccl_segment(const nccl_segment&) = delete;
  nccl_segment& operator=(const nccl_segment&) = delete;

  /// Announces a rank of this process. False if it was announced before.
  bool announce(int rank, int device_on_machine);
  int announced() const;
  int device(int rank) const;  ///< on the machine

  struct message {
    int peer = 0;
    nccl_header head = {};
    std::vector<std::byte> bytes = {};
    std::uint64_t number = 0;  ///< in its mailbox; 0: not posted or taken yet
    bool done = false;
  };
  /// Delivers the messages of a rank to its peers, and takes one message of the peer for each of
  /// `in`; between two ranks in order. False if `ended` became true before.
  bool exchange(int rank,
                std::vector<message>& out,
                std::vector<message>& in,
                const std::function<bool()>& ended);

 private:
  struct layout;
  nccl_segment(int file, layout* at) : file_(file), at_(at) {}
  bool post(int rank, message& x);
  bool take(int rank, message& x);

  int file_;  ///< -1: another process made it
  layout* at_;
};

}  // namespace troupe::emulator
