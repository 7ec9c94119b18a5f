#include "runtime/layout/process_map.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr const char* process_has_ranks
    = "PLACED-1: processes are numbered from 0, and each has a rank";

std::vector<int> contiguous(int world, int processes) {
  std::vector<int> out;
  for (int rank = 0; rank < world; ++rank)
    out.push_back(int((std::int64_t(rank + 1) * processes - 1) / world));
  return out;
}

}  // namespace

process_map::process_map(std::vector<int> table) : table_(std::move(table)) {
  for (int rank = 0; rank < int(table_.size()); ++rank) {
    const int process = process_of(rank);
    ensure(process >= 0 && process < int(table_.size()), process_has_ranks);
    ranks_.resize(std::max(ranks_.size(), std::size_t(process) + 1));
    ranks_[std::size_t(process)].push_back(rank);
  }
  ensure(std::ranges::none_of(ranks_, &std::vector<int>::empty), process_has_ranks);
}

process_map::process_map(int world, int processes) : process_map(contiguous(world, processes)) {}

}  // namespace troupe::runtime
