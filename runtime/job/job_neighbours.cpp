#include "runtime/job/job_neighbours.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

void order(std::vector<int>& x) {
  std::ranges::sort(x);
  x.erase(std::unique(x.begin(), x.end()), x.end());
}

/// The ranks that a rank exchanges with, as it sees them.
std::vector<int> partners_of(const job_pipeline& pipeline, const seats& all, int rank) {
  std::vector<int> out;
  const auto add
      = [&](const std::vector<int>& some) { out.insert(out.end(), some.begin(), some.end()); };
  for (const auto& group : groups_of(pipeline, all, rank))
    add(group.members);
  add(all.followers(rank));
  const auto at = all.at(rank);
  const auto& schedule = *pipeline.schedule;
  for (const auto& x : schedule.hosted_by(at[axis::pipeline]))
    if (const auto next = value(x.chunk) + 1; next < pipeline.chunks.size())
      out.push_back(all.beside(rank, axis::pipeline, schedule.rank_of(chunk_id(next), x.copy)));
  if (all.stage_index(rank) == 0)
    add(all.replica(at[axis::data]));
  return out;
}

}  // namespace

process_neighbours with_pairs(process_neighbours of,
                              const std::vector<std::pair<int, int>>& pairs) {
  for (const auto& [a, b] : pairs)
    if (a != b) {
      of[std::size_t(a)].push_back(b);
      of[std::size_t(b)].push_back(a);
    }
  std::ranges::for_each(of, order);
  return of;
}

process_neighbours neighbours_of(const job_pipeline& pipeline,
                                 const seats& all,
                                 const process_map& placed) {
  std::vector<std::pair<int, int>> pairs;
  for (int p = 0; p < placed.processes(); ++p) {
    std::vector<int> others;
    for (const int rank : placed.ranks_of(p))
      for (const int partner : partners_of(pipeline, all, rank))
        others.push_back(placed.process_of(partner));
    order(others);
    for (const int other : others)
      pairs.emplace_back(p, other);
  }
  return with_pairs(process_neighbours(std::size_t(placed.processes())), pairs);
}

}  // namespace troupe::runtime
