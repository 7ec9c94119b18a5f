#include "runtime/optim/schedules.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("cosine decay equals the rates that Megatron-LM prints", "[optim]") {
  const rate_schedule s{.maximum = 1.5e-4,
                        .minimum = 1e-5,
                        .warmup = 160,
                        .decay = 1600,
                        .style = decay_style::cosine};
  CHECK(std::abs(learning_rate(s, 192) - 1.498295e-4) < 1e-10);  // six digits are printed
  CHECK(std::abs(learning_rate(s, 800) - 9.215537e-5) < 1e-11);
  CHECK(learning_rate(s, 0) == 0.0);
  CHECK(std::abs(learning_rate(s, 160) - 1.5e-4) < 1e-18);
  CHECK(learning_rate(s, 1601) == 1e-5);
}

TEST_CASE("linear and constant rates follow their formulas", "[optim]") {
  rate_schedule s{.maximum = 1, .minimum = 0.5, .warmup_start = 0.2, .warmup = 10, .decay = 20};
  CHECK(std::abs(learning_rate(s, 5) - 0.6) < 1e-15);
  CHECK(std::abs(learning_rate(s, 15) - 0.75) < 1e-15);
  s.style = decay_style::constant;
  CHECK(learning_rate(s, 1000) == 1.0);
}

TEST_CASE("the batch size ramps up as in Megatron-LM", "[optim]") {
  const batch_schedule s{.micro = 1,
                         .global = 32,
                         .data_parallel = 2,
                         .ramp_start = 16,
                         .ramp_increment = 8,
                         .ramp_samples = 100};
  check(s);
  CHECK(global_batch_size(s, 0) == 16);
  CHECK(global_batch_size(s, 49) == 16);
  CHECK(global_batch_size(s, 50) == 24);
  CHECK(global_batch_size(s, 101) == 32);
  CHECK(microbatches(s, 0) == 8);
}

TEST_CASE("batch sizes that do not divide are refused with the nearest valid one", "[optim]") {
  CHECK_THROWS_WITH(check({.micro = 4, .global = 30, .data_parallel = 2}),
                    ContainsSubstring("nearest valid: 32"));
  CHECK_THROWS_WITH(check({.micro = 4, .global = 3, .data_parallel = 2}),
                    ContainsSubstring("nearest valid: 8"));
  CHECK_THROWS_AS(check({.micro = 0, .global = 3, .data_parallel = 2}), input_error);
}

TEST_CASE("batch sizes by step are read and followed as in Megatron-LM", "[optim]") {
  const auto steps = batch_steps_from("0:768 250B:1536, 1T:6144 500B:3072", 4096);
  CHECK(
      steps
      == std::vector<batch_step>{{0, 768}, {61035156, 1536}, {122070312, 3072}, {244140625, 6144}});
  CHECK(batch_steps_from("0:2,1.5K:4", 10) == std::vector<batch_step>{{0, 2}, {150, 4}});
  const batch_schedule s{
      .micro = 2, .global = 4, .data_parallel = 1, .steps = {{0, 8}, {10, 2}, {20, 4}}};
  check(s);
  CHECK(global_batch_size(s, 0) == 8);
  CHECK(global_batch_size(s, 9) == 8);
  CHECK(global_batch_size(s, 10) == 2);
  CHECK(global_batch_size(s, 20) == 4);
  CHECK(global_batch_size(s, 2000) == 4);
  CHECK_FALSE(is_settled(s, 19));
  CHECK(is_settled(s, 20));
}

TEST_CASE("invalid batch sizes by step are refused with the reason", "[optim]") {
  for (const auto* const text : {"768", ":8", "0:", "0:0", "x:8", "0:8x", "-1:8", "0:1e30T"})
    CHECK_THROWS_WITH(batch_steps_from(text, 8), ContainsSubstring("is not TOKENS:SIZE"));
  CHECK_THROWS_WITH(batch_steps_from(" , ", 8), ContainsSubstring("is empty"));
  batch_schedule s{.micro = 2, .global = 4, .steps = {{1, 2}, {10, 4}}};
  CHECK_THROWS_WITH(check(s), ContainsSubstring("one must begin at 0"));
  s.steps = {{0, 2}, {0, 4}};
  CHECK_THROWS_WITH(check(s), ContainsSubstring("two entries begin at 0"));
  s.steps = {{0, 3}, {10, 4}};
  CHECK_THROWS_WITH(check(s), ContainsSubstring("batch size 3 is not a multiple"));
  s.steps = {{0, 2}, {10, 4}};
  s.ramp_start = 2;
  CHECK_THROWS_WITH(check(s), ContainsSubstring("both set"));
}
