#include "runtime/layout/process_tree.hpp"

#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <vector>

using namespace troupe;
using runtime::process_tree;

TEST_CASE("TREE-1: each process has one parent, few children and a short way to the root",
          "[layout][invariant]") {
  for (const int processes : {1, 2, 16, 17, 33, 125, 1250, 12500}) {
    CAPTURE(processes);
    const process_tree tree(processes);
    std::vector<int> times(std::size_t(processes), 0);
    for (int p = process_tree::root; p < processes; ++p) {
      const auto below = tree.children(p);
      CHECK(int(below.size()) <= process_tree::most_children);
      CHECK(std::ranges::is_sorted(below));
      for (const int child : below) {
        ++times[std::size_t(child)];
        CHECK(tree.parent(child) == p);
        CHECK((child > p && tree.end_of_subtree(child) <= tree.end_of_subtree(p)));
      }
    }
    CHECK(std::ranges::count(times, 1) == processes);
    int farthest = 0;
    for (int p = 0; p < processes; ++p) {
      int steps = 0;
      for (int at = p; at != process_tree::root; at = tree.parent(at))
        ++steps;
      farthest = std::max(farthest, steps);
    }
    CHECK(farthest <= (processes <= 16 ? 1 : processes <= 272 ? 2 : processes <= 4368 ? 3 : 4));
  }
}

TEST_CASE("a subtree is a contiguous range of places", "[layout]") {
  const process_tree tree(40);
  CHECK(tree.children(process_tree::root).size() == 16);
  CHECK(tree.children(0) == std::vector{1});
  CHECK(tree.end_of_subtree(process_tree::root) == 40);
  const auto top = tree.children(process_tree::root);
  for (std::size_t i = 0; i + 1 < top.size(); ++i)
    CHECK(tree.end_of_subtree(top[i]) == top[i + 1]);
  CHECK_BREAKS("TREE-1", process_tree(3).parent(3));
}
