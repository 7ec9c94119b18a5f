// Assigns ranks to processes, and to each process a keeper: the peer that keeps a copy of its
// state.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Splits ranks [0, world) of the mesh into contiguous ranges of nearly equal size, one per
/// process. Ranks that exchange most data are neighbours in the rank order and share a process.
class process_map {
 public:
  process_map(int world, int processes) : world_(world), processes_(processes) {}

  int processes() const { return processes_; }
  int process_of(int rank) const { return int((std::int64_t(rank + 1) * processes_ - 1) / world_); }
  /// A process hosts ranks [first_of, end_of).
  int first_of(int process) const { return int(std::int64_t(process) * world_ / processes_); }
  int end_of(int process) const { return first_of(process + 1); }

 private:
  int world_, processes_;
};

/// The keeper of each process: another process, on another host if possible, with balanced load.
/// `hosts` names the host of each process; any value that is equal within a host works. Empty for
/// one process.
std::vector<int> keepers_of(const std::vector<std::string>& hosts);

/// Keepers after processes moved to other hosts. Changes as few entries of `before` as needed to
/// minimize the states kept on their own host; keeps `before` if nothing improves. `before` may be
/// empty.
std::vector<int> keepers_again(const std::vector<int>& before,
                               const std::vector<std::string>& hosts);

}  // namespace troupe::runtime
