// Assigns ranks to processes.

#pragma once

#include <vector>

namespace troupe::runtime {

/// The process of each rank.
class process_map {
 public:
  /// `table`: the process of each rank. Breaks PLACED-1 unless the processes are numbered from
  /// 0 and each has a rank.
  explicit process_map(std::vector<int> table);
  /// Contiguous ranges of ranks of nearly equal size. Ranks that exchange most data are neighbours
  /// in the rank order and share a process.
  process_map(int world, int processes);

  int processes() const { return int(ranks_.size()); }
  int process_of(int rank) const { return table_[std::size_t(rank)]; }
  /// The ranks of a process, ascending.
  const std::vector<int>& ranks_of(int process) const { return ranks_[std::size_t(process)]; }

 private:
  std::vector<int> table_;
  std::vector<std::vector<int>> ranks_;
};

}  // namespace troupe::runtime
