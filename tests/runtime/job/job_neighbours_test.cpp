// The neighbours of processes, compared with a reference that is written from coordinates.

#include "runtime/job/job_neighbours.hpp"

#include "runtime/family/gpt/gpt_config.hpp"
#include "tests/support/experts_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace troupe::runtime;

namespace {

struct ranks_along {
  std::string schedule;
  int pipeline, tensor, replicas;
};

training_job job_of(const ranks_along& x, bool tied) {
  training_job job;
  auto& m = job.training.model.as<gpt_config>();
  m.layers = 8;
  m.hidden = 32;
  m.heads = m.groups = 4;
  m.head_size = 8;
  m.ffn = 64;
  m.sequence = m.positions = 16;
  m.vocabulary = m.padded_vocabulary = 64;
  m.tied_embeddings = tied;
  job.training.batch = {.micro = 1, .global = 16 * x.replicas, .data_parallel = x.replicas};
  job.layout.world = x.pipeline * x.tensor * x.replicas;
  job.layout.tensor = x.tensor;
  job.layout.pipeline = x.pipeline;
  job.layout.schedule.source = x.schedule;
  job.data.mock = true;
  job.train_iterations = 10;
  return job;
}

process_map by_size(int world, int each) {
  return process_map(world, world / each);
}

/// True if two ranks exchange anything.
bool are_partners(const job_pipeline& pipeline, const seats& all, bool tied, int a, int b) {
  const auto x = all.at(a), y = all.at(b);
  const auto& schedule = *pipeline.schedule;
  const int chunks = schedule.chunks(), copies = schedule.copies();
  const bool same_replica = x[axis::data] == y[axis::data];
  const bool same_tensor = x[axis::tensor] == y[axis::tensor];
  const auto on = [&](int chunk, int copy) {
    return schedule.rank_of(chunk_id(std::uint32_t(chunk)), copy_id(std::uint32_t(copy)));
  };
  const int p = x[axis::pipeline], q = y[axis::pipeline];
  if (same_replica && p == q)
    return true;
  const auto is_first
      = [](const coordinates& c) { return c[axis::pipeline] == 0 && c[axis::tensor] == 0; };
  if (same_replica && (is_first(x) || is_first(y)))
    return true;
  if (!same_tensor)
    return false;
  for (int k = 0; k < copies; ++k) {
    for (int c = 0; same_replica && c + 1 < chunks; ++c)
      if ((on(c, k) == p && on(c + 1, k) == q) || (on(c, k) == q && on(c + 1, k) == p))
        return true;
    if (same_replica && tied && std::set{on(0, k), on(chunks - 1, k)} == std::set{p, q})
      return true;
  }
  // Sums of gradients: both host the same chunk, each perhaps another copy of it.
  for (int c = 0; c < chunks && (!same_replica || copies > 1); ++c) {
    std::set<int> hosts;
    for (int k = 0; k < copies; ++k)
      hosts.insert(on(c, k));
    if (hosts.contains(p) && hosts.contains(q))
      return true;
  }
  return false;
}

process_neighbours reference(const training_job& job, const process_map& placed, bool tied) {
  const auto pipeline = pipeline_of(job);
  const auto all = seats_of(job.layout);
  std::vector<std::set<int>> out(std::size_t(placed.processes()));
  for (int a = 0; a < all.size(); ++a)
    for (int b = 0; b < all.size(); ++b)
      if (placed.process_of(a) != placed.process_of(b) && are_partners(pipeline, all, tied, a, b))
        out[std::size_t(placed.process_of(a))].insert(placed.process_of(b));
  process_neighbours sorted;
  for (const auto& one : out)
    sorted.emplace_back(one.begin(), one.end());
  return sorted;
}

process_neighbours found(const training_job& job, const process_map& placed) {
  return neighbours_of(pipeline_of(job), seats_of(job.layout), placed);
}

}  // namespace

TEST_CASE("neighbours are the processes whose ranks exchange anything", "[job]") {
  const auto x = GENERATE(ranks_along{"", 1, 1, 8},
                          ranks_along{"", 8, 1, 1},
                          ranks_along{"", 4, 2, 2},
                          ranks_along{"", 2, 4, 3},
                          ranks_along{"zb-v", 4, 1, 2},
                          ranks_along{"dualpipe", 4, 2, 2},
                          ranks_along{"", 1, 4, 4});
  const bool tied = GENERATE(false, true);
  const auto job = job_of(x, tied);
  for (const int each : {1, 2, 4}) {
    if (job.layout.world % each != 0)
      continue;
    CAPTURE(x.schedule, x.pipeline, x.tensor, x.replicas, tied, each);
    const auto placed = by_size(job.layout.world, each);
    CHECK(found(job, placed) == reference(job, placed, tied));
  }
}

TEST_CASE("members of a group of experts are neighbours, and each is the other's", "[job]") {
  const auto job = troupe::tests::experts_job(2, 4, 2, {.expert = 4});
  const auto placed = by_size(job.layout.world, 1);
  const auto all = found(job, placed);
  const auto pipeline = pipeline_of(job);
  const auto seats = seats_of(job.layout);
  for (int rank = 0; rank < job.layout.world; ++rank) {
    const auto& own = all[std::size_t(rank)];
    for (const auto& group : groups_of(pipeline, seats, rank))
      for (const int member : group.members)
        CHECK((member == rank || std::ranges::binary_search(own, member)));
    for (const int other : own)
      CHECK(std::ranges::binary_search(all[std::size_t(other)], rank));
  }
}

TEST_CASE("pairs are added at both ends, once, and a process is no neighbour of itself", "[job]") {
  const process_neighbours line = {{1}, {0, 2}, {1}};
  CHECK(with_pairs(line, {{0, 2}, {2, 0}, {1, 1}, {0, 1}})
        == process_neighbours{{1, 2}, {0, 2}, {0, 1}});
}

TEST_CASE("more replicas or stages add no neighbours outside their groups", "[job]") {
  const auto most_of = [](const ranks_along& x) {
    const auto job = job_of(x, false);
    auto all = found(job, by_size(job.layout.world, 1));
    all.erase(all.begin());  // hosts the actor of the first replica
    std::size_t out = 0;
    for (std::size_t p = 0; p < all.size(); ++p)
      if (int(p + 1) % job.layout.world >= x.replicas)  // not on the first stage
        out = std::max(out, all[p].size());
    return out;
  };
  // The replicas' sum, the stages before and after, and the replica's actor.
  CHECK(most_of({"", 4, 1, 4}) == 3 + 2 + 1);
  CHECK(most_of({"", 8, 1, 4}) == 3 + 2 + 1);
  CHECK(most_of({"", 8, 1, 8}) == 7 + 2 + 1);
}
