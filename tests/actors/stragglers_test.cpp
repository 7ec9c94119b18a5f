// Detection of slow workers and the cause: times in, reports out.

#include "actors/supervisor/stragglers.hpp"

#include "actors/host/merged_times.hpp"
#include "runtime/core/random.hpp"
#include "tests/actors/recorded_noise.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

using namespace troupe;
using actors::slowness;
using actors::straggler_news;
using actors::stragglers;
using actors::worker_times;

namespace {

/// Stages of several replicas, which compute for 0.2 s with short waits.
std::vector<worker_times> usual_step(int replicas, int stages = 2) {
  std::vector<worker_times> out;
  for (int r = 0; r < replicas; ++r)
    for (int s = 0; s < stages; ++s)
      out.push_back({r, s, 0.2 + 0.1 * s, 0.001, 0.002});
  return out;
}

worker_times& of(std::vector<worker_times>& step, int replica, int stage) {
  for (auto& x : step)
    if (x.replica == replica && x.stage == stage)
      return x;
  throw std::out_of_range("no such worker");
}

/// Uniform in (0, 1), deterministic.
double drawn(std::uint64_t& number) {
  return runtime::uniform(runtime::random_key(1, "stragglers", 0), number++);
}

/// About 15 % of noise, and a three times longer step in one of a hundred: another thread had the
/// core.
double noise(std::uint64_t& number) {
  const double normal = std::sqrt(-2 * std::log(drawn(number) + 1e-12))
                        * std::cos(6.283185307179586 * drawn(number));
  return std::exp(0.15 * normal) * (drawn(number) < 0.01 ? 3 : 1);
}

void make_slow(worker_times& x, slowness how) {
  if (how == slowness::compute)
    x.computing *= 2;
  else if (how == slowness::link)
    x.redeeming += 0.3;
  else
    x.awaiting_batches += 0.3;
}

}  // namespace

TEST_CASE("STRAGGLER-1: a slow worker is reported in the third slow step, with the cause",
          "[actors]") {
  const auto how = GENERATE(slowness::compute, slowness::link, slowness::input);
  const int replicas = GENERATE(2, 3, 8);
  CAPTURE(int(how), replicas);
  stragglers x({});
  for (int i = 0; i < 10; ++i)
    CHECK(x.compare(usual_step(replicas), 4).empty());
  for (int i = 1; i <= 8; ++i) {
    auto step = usual_step(replicas);
    make_slow(of(step, replicas - 1, 1), how);
    const auto said = x.compare(step, 4);
    REQUIRE(said.size() == (i == 3 ? 1 : 0));  // once
    if (i == 3) {
      CHECK(said[0].replica == replicas - 1);
      CHECK(said[0].stage == 1);
      CHECK(said[0].is == how);
      CHECK(said[0].seconds > 1.5 * said[0].usual);
    }
  }
}

TEST_CASE("STRAGGLER-1: without others of its stage a worker is named after 10 s of slow steps",
          "[actors]") {
  stragglers x({});
  for (int i = 0; i < 10; ++i)
    CHECK(x.compare(usual_step(1), 1).empty());
  double slow_seconds = 0;
  std::vector<straggler_news> said;
  while (said.empty() && slow_seconds < 20) {
    auto step = usual_step(1);
    auto& one = of(step, 0, 1);
    make_slow(one, slowness::compute);
    slow_seconds += one.computing + one.redeeming + one.awaiting_batches;
    said = x.compare(step, 1);
  }
  REQUIRE(said.size() == 1);
  CHECK(said[0].stage == 1);
  CHECK(slow_seconds >= 10);
  CHECK(slow_seconds < 11);
}

TEST_CASE("a delay of a few seconds names no worker of a stage without peers", "[actors]") {
  stragglers x({});
  for (int i = 0; i < 100; ++i) {
    auto step = usual_step(1);
    if (i % 20 > 14)
      for (auto& one : step)
        make_slow(one, slowness::compute);
    CHECK(x.compare(step, 1).empty());
  }
}

TEST_CASE("one worker is never named", "[actors]") {
  stragglers x({});
  for (int i = 0; i < 200; ++i) {
    std::vector<worker_times> step = {{0, 0, i < 10 ? 0.2 : 1.0, 0.001, i < 100 ? 0.002 : 2.0}};
    CHECK(x.compare(step, 1).empty());
  }
}

TEST_CASE("STRAGGLER-1: a worker that is slow from the first step on is found among its peers",
          "[actors]") {
  stragglers x({});
  for (int i = 1; i <= 3; ++i) {
    auto step = usual_step(2);
    make_slow(of(step, 0, 0), slowness::compute);
    CHECK(x.compare(step, 1).size() == (i == 3 ? 1 : 0));
  }
}

TEST_CASE("if all workers wait for their batches all are reported", "[actors]") {
  stragglers x({});
  std::vector<straggler_news> said;
  for (int i = 0; i < 3; ++i) {
    auto step = usual_step(2, 1);
    for (auto& one : step)
      make_slow(one, slowness::input);
    said = x.compare(step, 1);
  }
  REQUIRE(said.size() == 2);
  CHECK(said[0].is == slowness::input);
  CHECK(said[1].is == slowness::input);
}

TEST_CASE("STRAGGLER-1: the end of slowness and a new cause are reported, too", "[actors]") {
  stragglers x({});
  std::vector<slowness> told;
  const auto run = [&](slowness how) {
    for (int i = 0; i < 6; ++i) {
      auto step = usual_step(2);
      if (how != slowness::none)
        make_slow(of(step, 1, 0), how);
      for (const auto& one : x.compare(step, 1))
        told.push_back(one.is);
    }
  };
  for (const auto how :
       {slowness::none, slowness::compute, slowness::none, slowness::link, slowness::input})
    run(how);
  CHECK(told == std::vector{slowness::compute, slowness::none, slowness::link, slowness::input});
}

namespace {

/// The news that the supervisor hears in this step.
std::vector<straggler_news> heard(stragglers& by, const std::vector<worker_times>& step) {
  messages::vote all;
  for (const auto& x : step) {
    messages::vote one;
    one.times = {{.replica = x.replica,
                  .stage_index = x.stage,
                  .computing = x.computing,
                  .redeeming = x.redeeming,
                  .awaiting_batches = x.awaiting_batches}};
    actors::merge_times(all, one);
  }
  return by.compare(actors::listed_workers(all), 1, actors::unlisted_workers(all));
}

}  // namespace

TEST_CASE("STRAGGLER-1: merged times of 40 replicas name the same workers as all times",
          "[actors]") {
  constexpr int replicas = 40;
  const int slow = GENERATE(0, 1, 5, 12);  // more than are listed
  CAPTURE(slow);
  stragglers exact({}), merged({});
  std::uint64_t number = 0;
  std::vector<std::pair<int, slowness>> of_exact, of_merged;
  for (int i = 0; i < 60; ++i) {
    auto step = usual_step(replicas, 1);
    for (auto& one : step) {
      one.computing *= noise(number);
      one.redeeming *= 10 * noise(number);
      one.awaiting_batches *= 5 * noise(number);
    }
    if (i >= 20 && i < 40)
      for (int r = 0; r < slow; ++r)  // all alike
        of(step, 3 * r, 0).computing = 1.2;
    for (const auto& x : exact.compare(step, 1))
      of_exact.emplace_back(x.replica, x.is);
    for (const auto& x : heard(merged, step))
      of_merged.emplace_back(x.replica, x.is);
  }
  if (slow > int(actors::slowest_listed)) {
    // The slowest are named first, the others when those listed are slower no longer.
    CHECK(of_exact.size() == std::size_t(2 * slow));
    CHECK(of_merged.size() >= 2 * actors::slowest_listed);
    for (const auto& [replica, is] : of_merged)
      CHECK((replica % 3 == 0 && replica < 3 * slow));
    return;
  }
  std::ranges::sort(of_exact);
  std::ranges::sort(of_merged);
  CHECK(of_merged == of_exact);
  CHECK(of_exact.size() == std::size_t(2 * slow));  // slow, and over
}

TEST_CASE("two slow steps are not a straggler", "[actors]") {
  stragglers x({});
  for (int i = 0; i < 60; ++i) {
    auto step = usual_step(2);
    if (i % 3 != 0)
      make_slow(of(step, 1, 0), slowness::compute);
    CHECK(x.compare(step, 1).empty());
  }
}

TEST_CASE("a delay that does not affect the step is not a straggler", "[actors]") {
  stragglers x({});
  for (int i = 0; i < 20; ++i) {
    auto step = usual_step(2);
    for (auto& one : step) {
      one.computing /= 100;
      one.awaiting_batches = i > 10 ? 0.019 : 0;
    }
    if (i > 10)
      make_slow(of(step, 1, 0), slowness::compute);
    CHECK(x.compare(step, 1).empty());
  }
}

TEST_CASE("more micro-batches take longer, and no worker is slow", "[actors]") {
  const int replicas = GENERATE(1, 2);
  stragglers x({});
  for (int i = 0; i < 20; ++i) {
    const double work = i < 10 ? 4 : 16;
    auto step = usual_step(replicas);
    for (auto& one : step)
      one.computing *= work;
    CHECK(x.compare(step, work).empty());
  }
}

TEST_CASE("a ratio of 0 disables reports", "[actors]") {
  stragglers x({.ratio = 0});
  for (int i = 0; i < 10; ++i) {
    auto step = usual_step(2);
    make_slow(of(step, 1, 0), slowness::compute);
    CHECK(x.compare(step, 1).empty());
  }
}

TEST_CASE("STRAGGLER-1: only the slow one of sixteen workers on two cores is reported",
          "[actors]") {
  const bool one_is_slow = GENERATE(false, true);
  stragglers x({});
  std::vector<straggler_news> said;
  int steps = 0, first = 0;
  for (int round = 0; round < 10; ++round)
    for (const auto& recorded : tests::recorded_noise) {
      ++steps;
      std::vector<worker_times> step;
      for (std::size_t r = 0; r < recorded.size(); ++r) {  // added to a step of 0.2 s
        const double work = 33e-4 * recorded[r].with_core;
        step.push_back({int(r), 0, one_is_slow && r == 5 ? 2 * work : work, 0.001, 0.002});
      }
      for (const auto& news : x.compare(step, 1)) {
        said.push_back(news);
        first = first == 0 ? steps : first;
      }
    }
  REQUIRE(said.size() == (one_is_slow ? 1 : 0));
  if (one_is_slow) {
    CHECK(first == 3);
    CHECK(said[0].replica == 5);
    CHECK(said[0].is == slowness::compute);
  }
}

TEST_CASE("STRAGGLER-1: with frequent slow steps more of them are needed for a report",
          "[actors]") {
  stragglers x({});
  CHECK(x.needed(slowness::compute) == 3);
  // Each of sixteen workers is slow for two steps in ten, at different times.
  for (int i = 0; i < 400; ++i) {
    auto step = usual_step(16, 1);
    for (auto& one : step)
      if ((i + 3 * one.replica) % 10 < 2)
        make_slow(one, slowness::compute);
    CHECK(x.compare(step, 1).empty());
  }
  const int needed = x.needed(slowness::compute);
  CHECK(needed > 5);
  CHECK(needed < 12);
  CHECK(x.needed(slowness::link) == 3);
  int steps = 0;
  std::vector<straggler_news> said;
  while (said.empty() && ++steps < 100) {
    auto step = usual_step(16, 1);
    make_slow(of(step, 7, 0), slowness::compute);
    said = x.compare(step, 1);
  }
  REQUIRE(said.size() == 1);
  CHECK(said[0].replica == 7);
  CHECK(steps >= needed - 2);
  CHECK(steps <= needed + 1);
}

TEST_CASE("times within the usual spread are not a straggler", "[actors]") {
  stragglers x({});
  std::uint64_t number = 0;
  // Links take between nothing and a bit more than twice the computing time.
  for (int i = 0; i < 300; ++i) {
    auto step = usual_step(4, 1);
    for (auto& one : step)
      one.redeeming = 0.45 * drawn(number);
    CHECK(x.compare(step, 1).empty());
  }
  // A much longer time is reported.
  for (int i = 1; i <= 30; ++i) {
    auto step = usual_step(4, 1);
    for (auto& one : step)
      one.redeeming = 0.45 * drawn(number);
    of(step, 2, 0).redeeming = 5;
    const auto said = x.compare(step, 1);
    if (said.empty())
      continue;
    CHECK(i >= 3);
    CHECK(said[0].replica == 2);
    CHECK(said[0].is == slowness::link);
    return;
  }
  FAIL("no worker was reported");
}

TEST_CASE("STRAGGLER-1: noise of 15 percent with hiccups causes no report in 10000 steps",
          "[actors][unsanitized]") {
  const int replicas = GENERATE(1, 2, 3, 16);
  CAPTURE(replicas);
  stragglers x({});
  std::uint64_t number = 0;
  std::size_t alarms = 0;
  for (int i = 0; i < 10'000; ++i) {
    auto step = usual_step(replicas, replicas < 16 ? 2 : 1);
    for (auto& one : step) {
      one.computing *= noise(number);
      one.redeeming *= 10 * noise(number);
      one.awaiting_batches *= 5 * noise(number);
    }
    alarms += x.compare(step, 1).size();
  }
  CHECK(alarms == 0);
}
