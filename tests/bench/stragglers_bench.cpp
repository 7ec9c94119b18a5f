// Sixteen workers in one process, with fewer cores: counts how often a slow worker is named, and
// how often a worker is named that only waits for a core.
//
//   bench_stragglers [runs]
//
// Default: 20 runs of each kind. The result depends on the machine and its load. The tests with
// recorded and invented times are tests/actors/stragglers_test.cpp and stage_timing_test.cpp.

#include "runtime/core/log.hpp"
#include "runtime/family/gpt/gpt_config.hpp"
#include "tests/support/recovery_judge.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <string>

using namespace troupe;

namespace {

/// Each worker computes long enough to lose its core.
tests::arrangement sixteen_workers() {
  auto job = tests::tiny_job(1, 16);
  job.training.model.as<runtime::gpt_config>().hidden = 64;
  job.training.model.as<runtime::gpt_config>().head_size = 16;
  job.training.model.as<runtime::gpt_config>().ffn = 256;
  job.training.model.as<runtime::gpt_config>().sequence
      = job.training.model.as<runtime::gpt_config>().positions = 64;
  job.training.batch.global = 128;
  tests::arrangement out{"sixteen workers", tests::watched_job(job)};
  out.job.train_iterations = 10;
  out.job.watch.eval_interval = 0;
  out.job.watch.straggler_ratio = 1.5;
  return out;
}

/// The reported stragglers, such as "stage:5.0 compute, ".
std::string told(const tests::lived& x) {
  std::string out;
  for (const auto& event : x.events)
    out += std::string(event["who"]) + " " + std::string(event["verdict"]) + ", ";
  return out.empty() ? "no worker" : out;
}

void count_told(const char* what, const std::string& death, int runs) {
  std::map<std::string, int> times;
  for (int i = 0; i < runs; ++i)
    ++times[told(tests::live(sixteen_workers(), death))];
  fmt::print("{}:\n", what);
  for (const auto& [who, n] : times)
    fmt::print("  {:>3} of {} runs name {}\n", n, runs, who);
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 20;
  runtime::set_log_level(runtime::severity::error);
  count_told("all alike", "", runs);
  count_told("stage:5.0 takes 100 ms longer from step 2 on", "lane:5.0@2:forward:slow", runs);
  return 0;
}
