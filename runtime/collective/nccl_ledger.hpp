// What the ranks of one process came to a group for: COLLECTIVE-1 and -4 where nobody meets
// anybody.

#pragma once

#include "runtime/collective/call.hpp"
#include "runtime/collective/nccl/nccl.hpp"

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// Not for several threads. What it is told of is compared with what others said, kept until all
/// that are here have said it, and each function returns what is wrong, or nothing.
class nccl_ledger {
 public:
  /// The rank's next operation; `to_ends` of an all_to_all, with its call's ends.
  std::string enter(axis along,
                    int ranks_here,
                    int rank,
                    const collective_call& call,
                    communicator::offsets to_ends);

  /// Between ranks that are all here.
  std::string exchange(axis along,
                       int rank,
                       std::span<const nccl_send> sends,
                       std::span<const nccl_receive> receives);

 private:
  using cuts = std::vector<std::int64_t>;
  struct entry {
    int rank = -1;  ///< who came first
    collective_call call = {};
    cuts ends = {};
    int arrived = 0;
    std::map<int, std::pair<cuts, cuts>> sent_and_expected = {};
  };
  /// Of one rank to another, what only one of them has spoken of so far.
  struct pair {
    std::deque<std::int64_t> sent, expected;
  };

  std::map<int, std::uint64_t> came_;  ///< how often each rank has
  std::map<std::uint64_t, entry> open_;
  std::map<std::pair<int, int>, pair> pairs_;
};

}  // namespace troupe::runtime
