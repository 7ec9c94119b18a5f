// Tests of reading the JSON records of a run back into reports.

#include "runtime/telemetry/run_log.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <string>

using namespace troupe::runtime;

namespace {

/// A report with all fields of a record.
step_report full_step() {
  return {.iteration = 7,
          .consumed_samples = 56,
          .consumed_tokens = 896,
          .global_batch_size = 8,
          .loss = 0.1,
          .grad_norm = 0.3,
          .learning_rate = 1e-3,
          .elapsed_ms = 2.5,
          .tokens_per_second = 51200.7,
          .flops_per_second = 5e11,
          .state = {0xfedcba9876543210, 2},
          .skipped = {.iterations = 3, .nan = 1},
          .scale = {.value = 65536},
          .params_norm = 12.25,
          .zero_gradients = 4,
          .pipeline = {.ms = 2,
                       .planned_ms = 1.5,
                       .bubble = 0.25,
                       .planned_bubble = 0.125,
                       .gap_ms = 0.01,
                       .hand_off_ms = 0.02,
                       .late_ms = 0.5,
                       .worst_late_ms = 0.75}};
}

run_event restart() {
  return {.iteration = 9,
          .kind = "restart",
          .who = "stage:0.1",
          .why = "replica:0: stage:0.1: killed",
          .from = "keeper",
          .resumed = 8,
          .generation = (std::uint64_t(1) << 32) + 2,
          .seconds = 0.5,
          .news_ns = 123456789012345,
          .release = 0.1,
          .respawn = 0.2,
          .transfer = 0.05,
          .rebuild = 0.15,
          .verdict = "wrong bits"};
}

}  // namespace

TEST_CASE("a step survives the round trip through its record", "[log]") {
  const auto x = full_step();
  auto read = read_step_record(json_record(x, {.throughput = true}));
  REQUIRE(read);
  CHECK(read->flops_per_second == Catch::Approx(x.flops_per_second));
  read->flops_per_second = x.flops_per_second;
  CHECK(*read == x);

  auto plain = x;  // a run with one stage, in bf16, without further measurements
  plain.flops_per_second = 0;
  plain.scale = {};
  plain.params_norm = -1;
  plain.zero_gradients = -1;
  plain.pipeline = {};
  CHECK(read_step_record(json_record(plain, {})) == plain);
}

TEST_CASE("a skipped step differs from a step without a loss", "[log]") {
  auto x = full_step();
  x.loss = NAN;
  const auto no_loss = read_step_record(json_record(x, {}));
  REQUIRE(no_loss);
  CHECK(no_loss->has_no_loss());
  CHECK_FALSE(no_loss->was_skipped());
  x.grad_norm = HUGE_VAL;
  x.skipped.in_a_row = 2;
  const auto skipped = read_step_record(json_record(x, {}));
  REQUIRE(skipped);
  CHECK(skipped->was_skipped());
  CHECK_FALSE(skipped->has_no_loss());
  CHECK(skipped->grad_norm == HUGE_VAL);
}

TEST_CASE("validations and tests are read", "[log]") {
  for (const bool test : {false, true}) {
    const validation_report x{.iteration = 20, .loss = 2.25, .test = test};
    CHECK(read_validation_record(json_record(x)) == x);
    const auto none = read_validation_record(json_record(validation_report{20, NAN, test}));
    REQUIRE(none);
    CHECK(std::isnan(none->loss));
    CHECK(none->test == test);
  }
}

TEST_CASE("an event survives the round trip through its record", "[log]") {
  CHECK(read_event_record(json_record(restart())) == restart());
  const run_event slow{.iteration = 4,
                       .kind = "straggler",
                       .who = "stage:0.0",
                       .why = "2.1 times as slow",
                       .from = {},
                       .verdict = "compute"};
  CHECK(read_event_record(json_record(slow)) == slow);
}

TEST_CASE("records of the hub and of other versions are read, other texts are refused", "[log]") {
  const auto step = read_step_record(
      R"({"kind":"step","at":12.5,"iteration":3,"lm_loss":"high","elapsed_ms":2,"state_digest":"x","new":[{}]})");
  REQUIRE(step);
  CHECK(step->iteration == 3);
  CHECK(std::isnan(step->loss));
  CHECK(step->elapsed_ms == 2);
  CHECK(step->state == digest{});
  CHECK(step->params_norm < 0);
  CHECK_FALSE(step->was_skipped());
  const auto event = read_event_record(R"({"iteration":3,"event":"new kind","seconds":null})");
  REQUIRE(event);
  CHECK(event->kind == "new kind");
  CHECK(event->seconds == 0);
  const auto deep = R"({"iteration":1,"event":"x","validation_loss":1,"y":)" + std::string(100, '[')
                    + std::string(100, ']') + "}";
  for (const auto& none : {std::string(),
                           std::string("{}"),
                           std::string("[1]"),
                           std::string(R"({"iteration":-1})"),
                           std::string(R"({"iteration":1.5})"),
                           std::string(R"({"iteration":1)"),
                           deep}) {
    CHECK_FALSE(read_step_record(none));
    CHECK_FALSE(read_validation_record(none));
    CHECK_FALSE(read_event_record(none));
  }
  CHECK_FALSE(read_validation_record(R"({"iteration":1,"lm_loss":2})"));
  CHECK_FALSE(read_event_record(R"({"iteration":1})"));
}
