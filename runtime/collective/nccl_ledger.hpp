// Compares the calls of a group's ranks in one process, to check COLLECTIVE-1 and -4 without a
// barrier.

#pragma once

#include "runtime/collective/call.hpp"
#include "runtime/collective/nccl/nccl.hpp"

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// Not thread-safe. Compares each call with those of other ranks, and keeps it until all local
/// ranks have called. Functions return a description of the mismatch, or an empty string.
class nccl_ledger {
 public:
  /// Records the rank's next operation. `to_ends` belong to an all_to_all.
  std::string enter(axis_set along,
                    int ranks_here,
                    int rank,
                    const collective_call& call,
                    communicator::offsets to_ends);

  /// Records transfers; requires that all ranks of the group are in this process.
  std::string exchange(axis_set along,
                       int rank,
                       std::span<const nccl_send> sends,
                       std::span<const nccl_receive> receives);

 private:
  using cuts = std::vector<std::int64_t>;
  struct entry {
    int rank = -1;  ///< first rank to call
    collective_call call = {};
    cuts ends = {};
    int arrived = 0;
    std::map<int, std::pair<cuts, cuts>> sent_and_expected = {};
  };
  /// Sizes from one rank to another that only one side has reported so far.
  struct pair {
    std::deque<std::int64_t> sent, expected;
  };

  std::map<int, std::uint64_t> came_;  ///< calls of each rank
  std::map<std::uint64_t, entry> open_;
  std::map<std::pair<int, int>, pair> pairs_;
};

}  // namespace troupe::runtime
