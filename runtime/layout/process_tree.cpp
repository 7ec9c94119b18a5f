#include "runtime/layout/process_tree.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cstdint>

namespace troupe::runtime {
namespace {

/// Bounds of the ranges of nearly equal size below a process; their first places are its children.
std::vector<int> split(int first, int end) {
  const int parts = std::min(process_tree::most_children, end - first);
  std::vector<int> out;
  for (int i = 0; i < parts; ++i)
    out.push_back(first + int(std::int64_t(end - first) * i / parts));
  out.push_back(end);
  return out;
}

}  // namespace

process_tree::place process_tree::place_of(int process) const {
  ensure(process >= root && process < processes_, "TREE-1: a process has a place in the tree");
  place out{.end = processes_};
  for (int at = root; at != process;) {
    const auto bounds = split(at + 1, out.end);
    const auto end = std::ranges::upper_bound(bounds, process);
    out = {.parent = at, .end = *end};
    at = *(end - 1);
  }
  return out;
}

std::vector<int> process_tree::children(int process) const {
  auto out = split(process + 1, place_of(process).end);
  out.pop_back();
  return out;
}

}  // namespace troupe::runtime
