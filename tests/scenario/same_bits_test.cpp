// Settings of a job that do not change its bits.

#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <chrono>
#include <thread>

using namespace troupe;

namespace {

runtime::training_job job_of(int pipeline, int data, int tensor) {
  auto job = tests::tiny_job(pipeline, data, tensor);
  job.layout.sequence_parallel = tensor > 1;
  job.train_iterations = 6;
  job.reduction.bucket_size = 4096;
  job.reduction.grain = 256;
  return job;
}

std::map<int, std::string> digests_of(runtime::training_job job) {
  const tests::scratch_folder folder;
  job.watch.log_file = folder / "log.jsonl";
  const auto end = actors::run(tests::tiny_prepared(job));
  CHECK(end.reason == "");
  auto out = tests::digests_in(folder / "log.jsonl");
  REQUIRE(out.size() == job.train_iterations);
  return out;
}

}  // namespace

TEST_CASE("replicas in turn have the digests of parallel replicas", "[scenario][unsanitized]") {
  const int P = GENERATE(1, 2), T = GENERATE(1, 2);
  const bool bf16 = GENERATE(false, true);
  CAPTURE(P, T, bf16);
  auto job = job_of(P, 4, T);
  job.training.precision = bf16 ? runtime::dtype::bf16 : runtime::dtype::f32;
  const auto expected = digests_of(job);
  for (const int each : {2, 4}) {
    CAPTURE(each);
    auto fewer = job;
    tests::play_in_turn(fewer, each);
    CHECK(digests_of(fewer) == expected);
    fewer.reduction.distributed_optimizer = each == 2;
    fewer.reduction.overlap_gradients = each == 2;
    CHECK(digests_of(fewer) == expected);
  }
}

TEST_CASE("a distributed optimizer and overlapped communication give the same bits",
          "[scenario][unsanitized]") {
  const int P = GENERATE(1, 2), T = GENERATE(1, 2);
  const bool bf16 = GENERATE(false, true), recomputed = GENERATE(false, true);
  CAPTURE(P, T, bf16, recomputed);
  auto job = job_of(P, 2, T);
  job.training.precision = bf16 ? runtime::dtype::bf16 : runtime::dtype::f32;
  if (recomputed)
    job.recompute.granularity = runtime::recompute_granularity::full;
  const auto expected = digests_of(job);
  for (const int extent : {4096, 1 << 20}) {  // several buckets, or one
    job.reduction.bucket_size = extent;
    for (const int mode : {1, 2, 3, 4}) {
      CAPTURE(extent, mode);
      job.reduction.distributed_optimizer = mode > 1;
      job.reduction.overlap_gradients = mode != 2;
      job.reduction.overlap_parameters = mode == 4;
      CHECK(digests_of(job) == expected);
    }
  }
}

TEST_CASE("gradient reductions start before the backward pass has ended", "[scenario]") {
  const bool overlapped = GENERATE(true, false);
  CAPTURE(overlapped);
  auto job = job_of(1, 2, 1);
  job.training.batch = {.micro = 2, .global = 4, .data_parallel = 2};
  job.train_iterations = 1;
  job.reduction.overlap_gradients = overlapped;
  // The backward pass of four layers runs one by one, each with its own W; the last layer's
  // gradients are complete after the first W. The lanes pause before each piece of work, longer
  // than a wire sleeps.
  job.recompute.granularity = runtime::recompute_granularity::full;
  const auto prepared = tests::tiny_prepared(job);
  prepared->node->env.make_lane = [](runtime::lane_settings settings) {
    if (settings.name.starts_with("lane"))
      settings.before_each = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
    return runtime::make_thread_lane(std::move(settings));
  };
  REQUIRE(actors::run(prepared).exit_code == 0);

  for (const int rank : {0, 1}) {
    std::uint64_t first_sum = ~std::uint64_t{0}, end_of_way_back = 0;
    int sums = 0, ways = 0;
    for (const auto& x : prepared->node->trace->spans()) {
      if (x.rank != rank)
        continue;
      if (x.track == 1 && x.name.starts_with("reduce ")) {
        ++sums;
        first_sum = std::min(first_sum, x.begin_ns);
      } else if (x.track == 0 && x.name.find('W') != std::string::npos) {
        ++ways;
        end_of_way_back = std::max(end_of_way_back, x.end_ns);
      }
    }
    CHECK(ways > 1);
    CHECK((sums > 1) == overlapped);
    if (overlapped)
      CHECK(first_sum < end_of_way_back);
  }
}
