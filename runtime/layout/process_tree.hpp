// The tree of a run's processes: orders go down it, and merged reports go up.
//
// It follows from the number of processes alone, so each process knows its place. The supervisor's
// process is the root. Each subtree is a contiguous range of places, because neighbouring places
// share hosts.
//
//   TREE-1  Each process has one parent and at most `most_children` children, and its distance from
//           the root grows with the logarithm of the number of processes.

#pragma once

#include <vector>

namespace troupe::runtime {

class process_tree {
 public:
  static constexpr int root = -1;  ///< the supervisor's process
  static constexpr int most_children = 16;

  explicit process_tree(int processes) : processes_(processes) {}

  int parent(int process) const { return place_of(process).parent; }
  /// Ascending; of `root`, too.
  std::vector<int> children(int process) const;
  /// The places of a process and all below it are [process, end).
  int end_of_subtree(int process) const { return place_of(process).end; }

 private:
  struct place {
    int parent = root;
    int end = 0;
  };
  place place_of(int process) const;

  int processes_;
};

}  // namespace troupe::runtime
