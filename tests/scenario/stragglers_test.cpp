// Sixteen workers in one process, on as many cores as there are: who is slow is named, and who
// only waits for a core is not.

#include "tests/support/recovered_job.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>

using namespace troupe;

namespace {

/// Each computes for long enough to lose its core.
tests::arrangement sixteen_workers() {
  auto job = tests::tiny_job(1, 16);
  job.training.model.hidden = 64;
  job.training.model.head_size = 16;
  job.training.model.ffn = 256;
  job.training.model.sequence = job.training.model.positions = 64;
  job.training.batch.global = 128;
  tests::arrangement out{"sixteen workers", tests::watched_job(job)};
  out.job.train_iterations = 10;
  out.job.watch.eval_interval = 0;
  out.job.watch.straggler_ratio = 1.5;
  return out;
}

/// The stragglers that are told, as "stage:5.0 compute, ".
std::string told(const tests::lived& x) {
  std::string out;
  for (const auto& event : x.events)
    out += std::string(event["who"]) + " " + std::string(event["verdict"]) + ", ";
  return out;
}

}  // namespace

// What others do on the machine may make one slow indeed; not each time.
TEST_CASE("STRAGGLER-1: sixteen workers that share few cores are no stragglers",
          "[scenario][recovery]") {
  std::string heard;
  for (int tries = 0; tries < 3; ++tries) {
    const auto x = tests::live(sixteen_workers());
    CHECK(x.restarts == 0);
    CHECK(x.iterations.size() == 10);
    heard = told(x);
    if (heard.empty())
      return;
  }
  FAIL("named in each of three runs, last: " << heard);
}

TEST_CASE("STRAGGLER-1: of sixteen workers that share few cores the slow one is named",
          "[scenario][recovery]") {
  std::string heard;
  for (int tries = 0; tries < 3; ++tries) {
    const auto x = tests::live(sixteen_workers(), "lane:5.0@2:forward:slow");
    CHECK(x.restarts == 0);
    heard = told(x);
    if (heard == "stage:5.0 compute, ")
      return;
  }
  FAIL("not it alone in any of three runs, last: " << heard);
}
