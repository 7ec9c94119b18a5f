// Assigns ranks to processes, and to each process a keeper: the peer that keeps a copy of its
// state.

#pragma once

#include <string>
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
