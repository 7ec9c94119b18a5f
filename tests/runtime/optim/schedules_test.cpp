#include "runtime/optim/schedules.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("cosine decay meets Megatron's printed rates", "[optim]") {
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

TEST_CASE("the batch size ramps up as Megatron's does", "[optim]") {
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

TEST_CASE("batch sizes that do not divide are refused with the nearest that would", "[optim]") {
  CHECK_THROWS_WITH(check({.micro = 4, .global = 30, .data_parallel = 2}),
                    ContainsSubstring("would do: 32"));
  CHECK_THROWS_WITH(check({.micro = 4, .global = 3, .data_parallel = 2}),
                    ContainsSubstring("would do: 8"));
  CHECK_THROWS_AS(check({.micro = 0, .global = 3, .data_parallel = 2}), input_error);
}
