// Planted deaths, and who they strike.

#include "actors/support/fault_injector.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using actors::fault_injector;
using runtime::moment_of_step;

TEST_CASE("wrong bits wait for something that has a bit", "[actors]") {
  const auto* const text = "lane:0.0@4:input-gradient:wrong-bits";
  const fault_injector x({.death = text});
  const auto comes = [&](bool has_result) {
    return x.pass("lane:0.0", 4, moment_of_step::input_gradient, has_result);
  };
  CHECK(comes(false) == fault_injector::fate::lives);
  CHECK(x.deaths_to_come() == std::vector<std::string>{text});
  CHECK(comes(true) == fault_injector::fate::wrong_bits);
  CHECK(comes(true) == fault_injector::fate::lives);
  CHECK(x.deaths_to_come().empty());
}

TEST_CASE("NaN that is to come once comes once in each step", "[actors]") {
  const fault_injector x({.fault = "nan-once:0.1@3-4,nan:1.0@3"});
  CHECK_FALSE(x.injects("nan:0.1", 2));
  CHECK(x.injects("nan:0.1.0", 3));
  CHECK_FALSE(x.injects("nan:0.1", 3));
  CHECK(x.injects("nan:0.1", 4));
  CHECK_FALSE(x.injects("nan:0.0", 3));
  for (int again = 0; again < 2; ++again)
    CHECK(x.injects("nan:1.0", 3));
}
