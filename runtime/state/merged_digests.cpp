#include "runtime/state/merged_digests.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

void add_copies(std::multimap<std::string, digest>& to, const std::map<std::string, digest>& more) {
  for (const auto& x : more) {
    const auto [first, end] = to.equal_range(x.first);
    if (std::find(first, end, x) == end)
      to.insert(x);
  }
}

}  // namespace

void merge_digests(state_digests& to, chunk_digests of_chunk, bool answers) {
  if (answers)
    to.own.merge(of_chunk.own);
  else
    add_copies(to.copies, of_chunk.own);
  add_copies(to.copies, of_chunk.copies);
}

}  // namespace troupe::runtime
