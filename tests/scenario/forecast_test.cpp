// The memory that was forecast is the memory that is used, whatever the schedule.

#include "runtime/trainer/memory_forecast.hpp"
#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;

TEST_CASE("each schedule's peak of memory is forecast within 5 percent on every rank",
          "[scenario]") {
  const std::string schedule = GENERATE("gpipe",
                                        "1f1b",
                                        "interleaved",
                                        "looped-bfs",
                                        "zb-h1",
                                        "izb",
                                        "zb-h2",
                                        "zb-v",
                                        "v-half",
                                        "v-min",
                                        "dualpipe",
                                        "dualpipev");
  CAPTURE(schedule);
  auto job = tests::tiny_job(2, 1);
  job.training.model.sequence = job.training.model.positions = 64;
  job.training.batch = {.micro = 2, .global = 16, .data_parallel = 1};
  job.layout.schedule.source = schedule;
  job.train_iterations = 2;
  const auto prepared = tests::tiny_prepared(job);
  REQUIRE(actors::run(prepared).exit_code == 0);
  CHECK(prepared->node->pools->peaks().size() == 2);
  for (const auto& [rank, peak] : prepared->node->pools->peaks()) {
    CAPTURE(rank, peak);
    const auto expected = runtime::forecast_memory(
                              job, prepared->opened().pipeline, prepared->opened().mesh.at(rank))
                              .peak();
    // A rank that hosts neighbours holds what passes between them once more for a moment.
    CHECK(std::abs(double(peak) / double(expected) - 1) < 0.05);
  }
}
