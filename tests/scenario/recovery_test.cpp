// Whoever dies, whenever, is replaced inside the run, and the weights at the end are the same bits.

#include "runtime/trainer/planted_death.hpp"
#include "tests/support/recovered_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <string>

using namespace troupe;
using tests::arrangement;

namespace {

std::string moment_from(int i) {
  return std::string(runtime::moment_names()[std::size_t(i)]);
}

/// Tensor ranks, a distributed optimizer with everything overlapped, bf16.
arrangement overlapped() {
  auto job = tests::tiny_job(2, 2, 2);
  job.layout.sequence_parallel = true;
  job.reduction = {.distributed_optimizer = true,
                   .bucket_size = 4096,
                   .overlap_gradients = true,
                   .overlap_parameters = true,
                   .grain = 256};
  job.training.precision = runtime::dtype::bf16;
  return {"overlapped", tests::watched_job(job)};
}

}  // namespace

TEST_CASE("whoever dies at whatever moment is replaced, and the weights are the same bits",
          "[scenario][recovery]") {
  const std::string who = GENERATE("supervisor",
                                   "node",
                                   "loader",
                                   "checkpointer",
                                   "monitor",
                                   "replica:1",
                                   "stage:0.1",
                                   "lane:1.0");
  const auto death = tests::death_of(who, moment_from(GENERATE(range(0, 13))));
  CAPTURE(death);
  tests::check_survives(tests::two_by_two(), death);
}

TEST_CASE("tensor ranks with a distributed optimizer, overlapped, in bf16, survive each moment",
          "[scenario][recovery]") {
  const std::string who = GENERATE("stage:0.1.1", "lane:1.0.1", "wire:0.1.0");
  const auto death = tests::death_of(who, moment_from(GENERATE(range(0, 13))));
  CAPTURE(death);
  tests::check_survives(overlapped(), death);
}
