#include "actors/simulation/cluster.hpp"

#include "actors/host/opened_job.hpp"
#include "actors/simulation/idle_worker.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/job/job_neighbours.hpp"
#include "runtime/job/job_seats.hpp"
#include "runtime/job/pipeline.hpp"
#include "runtime/layout/keepers.hpp"
#include "runtime/layout/process_map.hpp"
#include "runtime/layout/process_tree.hpp"
#include "runtime/trainer/worker_of_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace troupe;
using namespace troupe::actors::simulation;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;

namespace {

/// Hides the warnings of simulated deaths.
struct quiet {
  quiet() { runtime::set_log_level(runtime::severity::error); }
  ~quiet() { runtime::set_log_level(runtime::severity::info); }
};

cluster_settings of_size(int workers) {
  return {.workers = workers, .processes = workers / 8, .hosts = workers / 8};
}

/// Each size runs once for all tests.
const cluster_run& run_of(int workers) {
  static std::map<int, cluster_run> all;
  const quiet hides_progress;
  if (!all.contains(workers))
    all.emplace(workers, run_cluster(of_size(workers)));
  return all.at(workers);
}

/// Chunks that take a part of the micro-batch.
std::uint64_t chunks_with_batch(const cluster_settings& of) {
  const auto pipeline = runtime::pipeline_of(cluster_job(of));
  return std::uint64_t(
      std::ranges::count_if(pipeline.flows, [](const auto& flow) { return !flow.batch.empty(); }));
}

/// The tree of a cluster's processes, and its part with replicas.
struct known_tree {
  explicit known_tree(const cluster_settings& of) : tree(of.processes) {
    const auto job = cluster_job(of);
    const auto seats = runtime::seats_of(job.layout);
    const auto placed = runtime::placed_of(job.layout);
    for (int r = 0; r < seats.replicas(); ++r)
      homes.insert(placed.process_of(seats.rank_of_stage(r, 0)));
    top = tree.children(runtime::process_tree::root).size();
    for (int p = 0; p < of.processes; ++p) {
      const auto home = homes.lower_bound(p);
      if (home == homes.end() || *home >= tree.end_of_subtree(p))
        continue;
      ++(tree.parent(p) == runtime::process_tree::root ? leading_top : leading_inner);
    }
  }

  runtime::process_tree tree;
  std::set<int> homes;
  std::uint64_t top = 0;                             ///< processes below the supervisor
  std::uint64_t leading_top = 0, leading_inner = 0;  ///< that lead to replicas
};

double exponent(int smaller, int larger, double before, double now) {
  const auto out = growth({smaller, larger}, {before, now});
  REQUIRE(out);
  return *out;
}

}  // namespace

TEST_CASE("a step of a cluster has the messages of the protocol, and no others", "[simulation]") {
  for (const int workers : {64, 128, 256}) {
    CAPTURE(workers);
    const auto& x = run_of(workers);
    REQUIRE((x.tensor == 8 && x.pipeline == 8));
    const auto ranks = std::uint64_t(workers), replicas = ranks / 64, processes = ranks / 8;
    const auto passes = replicas * 8 * std::uint64_t(cluster_microbatches);
    const auto batches = passes * chunks_with_batch(x.of);
    const auto count
        = [&](const char* to, const char* message) { return x.step.of(to, message).messages; };
    const known_tree tree(x.of);
    for (const auto* const report : {"vote", "applied"}) {
      CHECK(count("supervisor", report) == tree.leading_top);
      CHECK(count("node", report) == replicas + tree.leading_inner);
    }
    for (const auto* const order : {"run_step", "decision"})
      CHECK(count("node", order) == tree.leading_top + tree.leading_inner);
    CHECK(count("supervisor", "kept") == tree.top);
    CHECK(count("node", "kept") == processes + processes - tree.top);
    CHECK(x.step.of("supervisor").handled.messages == 2 * tree.leading_top + tree.top);
    CHECK(x.step.of("supervisor").sent.messages == 2 * tree.leading_top + 1);
    CHECK(count("replica", "run_step") == replicas);
    CHECK(count("replica", "decision") == replicas);
    CHECK(count("replica", "vote") == ranks);
    CHECK(count("replica", "applied") == ranks);
    CHECK(x.step.of("replica").handled.messages == 2 * replicas + 2 * ranks);
    CHECK(count("stage", "run_step") == ranks);
    CHECK(count("stage", "decision") == ranks);
    CHECK(count("stage", "activation") == passes * 7);
    CHECK(count("stage", "gradient") == passes * 7);
    CHECK(count("stage", "batch_ready") == batches);
    CHECK(count("loader", "request_batch") == batches);
    CHECK(count("keeper", "keep") == ranks);
    CHECK(x.step.of("keeper").actors == processes);
    CHECK(count("monitor", "committed") == 1);
  }
}

TEST_CASE("no actor hears of each replica or tells each process that a generation stands",
          "[simulation]") {
  constexpr auto most = std::uint64_t(runtime::process_tree::most_children);
  const quiet hides_warnings;
  auto of = of_size(1024);
  of.kill = failing_part::process;
  const auto x = run_cluster(of);
  REQUIRE(x.recovery);
  const auto replicas = std::uint64_t(x.replicas), processes = std::uint64_t(of.processes);
  const known_tree tree(of);
  for (const auto* const all : {&x.start, &x.recovery->messages}) {
    CHECK(all->of("supervisor", "ready").messages == tree.leading_top);
    CHECK(all->of("node", "ready").messages == replicas + tree.leading_inner);
  }
  CHECK(tree.leading_top <= most);
  CHECK(x.recovery->messages.of("node", "all_restored").messages == processes);
  // It still ends the generation in each process, and gives each its place in the tree. A third
  // order to each would fail here.
  CHECK(x.recovery->messages.of("supervisor").sent.messages < 3 * processes);
}

TEST_CASE("no actor's work for a step grows with the cluster", "[simulation]") {
  constexpr int smaller = 256, larger = 1024;
  const auto& a = run_of(smaller).step;
  const auto& b = run_of(larger).step;
  for (const auto* const kind : {"supervisor", "replica", "stage", "keeper"}) {
    CAPTURE(kind);
    const auto of = [&](auto part) {
      return exponent(smaller, larger, double(part(a.of(kind))), double(part(b.of(kind))));
    };
    CHECK_THAT(of([](const kind_counts& x) { return x.most_handled.messages; }),
               WithinAbs(0, 1e-9));
    CHECK(of([](const kind_counts& x) { return x.most_handled.bytes + x.most_sent.bytes; }) < 0.3);
  }
  // A node has at most so many below it, and its own keeper and replica; two orders come from
  // above.
  constexpr auto most = std::uint64_t(runtime::process_tree::most_children);
  CHECK(b.of("node").most_handled.messages <= 3 * (most + 1) + 2);
  const auto bytes_of_vote = [](const counted_messages& x) {
    const auto all = x.of("supervisor", "vote");
    return double(all.bytes) / double(all.messages);
  };
  CHECK(exponent(smaller, larger, bytes_of_vote(a), bytes_of_vote(b)) < 0.3);
}

TEST_CASE("PROCESS-2: processes send messages to neighbours and to the supervisor's process only",
          "[simulation]") {
  const quiet hides_progress;
  for (const int each : {1, 2, 4, 8}) {
    CAPTURE(each);
    const int processes = 128 / each;
    const auto x = run_cluster({.workers = 128, .processes = processes, .hosts = processes});
    const auto job = cluster_job(x.of);
    std::vector<runtime::process_site> sites;
    for (int p = 0; p < processes; ++p)
      sites.emplace_back("host-" + std::to_string(p), "rack-" + std::to_string(p / hosts_in_rack));
    const auto keepers = runtime::keepers_of(sites);
    std::vector<std::pair<int, int>> others;
    const runtime::process_tree tree(processes);
    for (int p = 0; p < processes; ++p) {
      others.emplace_back(p, keepers[std::size_t(p)]);
      if (const int parent = tree.parent(p); parent != runtime::process_tree::root)
        others.emplace_back(parent, p);
    }
    const auto neighbours
        = runtime::with_pairs(runtime::neighbours_of(runtime::pipeline_of(job),
                                                     runtime::seats_of(job.layout),
                                                     runtime::placed_of(job.layout)),
                              others);
    auto pairs = x.start.pairs;
    pairs.insert(x.step.pairs.begin(), x.step.pairs.end());
    int between = 0;
    for (auto [from, to] : pairs) {
      if (from == 0 || to == 0)
        continue;  // the supervisor's process; the others follow it in order
      ++between;
      CAPTURE(from, to);
      CHECK(std::ranges::binary_search(neighbours[std::size_t(from - 1)], to - 1));
    }
    CHECK(between >= processes);
  }
}

TEST_CASE("a replica is told of the processes of its own ranks only", "[simulation]") {
  const auto bytes_each = [](int workers) {
    const auto all = run_of(workers).start.of("node", "spawn_replica");
    CHECK(all.messages == std::uint64_t(workers) / 64);
    return double(all.bytes) / double(all.messages);
  };
  CHECK_THAT(exponent(64, 256, bytes_each(64), bytes_each(256)), WithinAbs(0, 0.02));
}

TEST_CASE("equal clusters give equal figures, and a slower network gives a longer step",
          "[simulation]") {
  const auto& once = run_of(128);
  const auto again = run_cluster(of_size(128));
  CHECK(again.turns == once.turns);
  CHECK(again.step_seconds == once.step_seconds);
  CHECK(again.start_seconds == once.start_seconds);
  CHECK(again.step.all.bytes == once.step.all.bytes);
  auto slower = of_size(128);
  slower.latency_ns *= 10;
  CHECK(run_cluster(slower).step_seconds > once.step_seconds);
  auto busier = of_size(128);
  busier.handling_ns *= 10;
  CHECK(run_cluster(busier).step_seconds > once.step_seconds);
}

TEST_CASE("a cluster goes back at most one step after the death of a process", "[simulation]") {
  const quiet hides_warnings;
  auto of = of_size(128);
  of.kill = failing_part::process;
  const auto x = run_cluster(of);
  REQUIRE(x.recovery);
  CHECK(x.recovery->processes == 1);
  CHECK(x.recovery->from == "keeper");
  CHECK(x.recovery->resumed + 1 >= std::uint64_t(of.steps));
  CHECK(x.recovery->restart_seconds > 0);
  CHECK(x.recovery->outage_seconds >= x.recovery->restart_seconds);
  CHECK(x.recovery->messages.of("node", "end_generation").messages == 15);
  CHECK(x.recovery->messages.of("node", "spawn_stage").messages == 128);
}

TEST_CASE("a cluster recovers from the death of a rack by keepers in other racks", "[simulation]") {
  const quiet hides_warnings;
  auto of = of_size(256);
  of.kill = failing_part::rack;
  const auto x = run_cluster(of);
  REQUIRE(x.recovery);
  CHECK(x.recovery->processes == hosts_in_rack);
  CHECK(x.recovery->from == "keeper");
  CHECK(x.recovery->resumed + 1 >= std::uint64_t(of.steps));
}

TEST_CASE("a cluster without such a part is refused", "[simulation]") {
  auto of = of_size(64);
  of.kill = failing_part::rack;
  CHECK_THROWS_WITH(run_cluster(of), ContainsSubstring("a rack of 16 hosts"));
  of = of_size(64);
  of.processes = 65;
  CHECK_THROWS_WITH(run_cluster(of), ContainsSubstring("64 workers in 65 processes"));
}

TEST_CASE("growth is the exponent between two sizes", "[simulation]") {
  CHECK_THAT(*growth({10, 1000}, {3, 30000}), WithinAbs(2, 1e-12));
  CHECK_THAT(*growth({64, 128}, {5, 5}), WithinAbs(0, 1e-12));
  CHECK_FALSE(growth({64, 128}, {0, 5}));
}

TEST_CASE("IDLE-1: an idle worker's group exchanges no tensors", "[simulation]") {
  const auto group = idle_communicator({.name = "data", .members = {3, 5}, .rank = 1});
  CHECK((group->rank() == 1 && group->size() == 2));
  CHECK_THROWS_WITH(group->barrier(), ContainsSubstring("IDLE-1"));
}

TEST_CASE("IDLE-2: a rank with several chunks is refused", "[simulation]") {
  const auto job = cluster_job(of_size(64));
  auto settings = runtime::settings_of(job, runtime::pipeline_of(job), 0);
  settings.chunks.push_back(settings.chunks.front());
  idle_ranks ranks;
  CHECK_THROWS_WITH(ranks.of(settings, {0, 8}), ContainsSubstring("IDLE-2"));
}
