// Planted faults and their targets.

#include "actors/faults/fault_injector.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using actors::fault_injector;
using runtime::moment_of_step;

TEST_CASE("wrong bits wait for a result that has bits", "[actors]") {
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

TEST_CASE("NaN that is planted once appears once per step", "[actors]") {
  const fault_injector x({.fault = "nan-once:0.1@3-4,nan:1.0@3"});
  CHECK_FALSE(x.injects("nan:0.1", 2));
  CHECK(x.injects("nan:0.1.0", 3));
  CHECK_FALSE(x.injects("nan:0.1", 3));
  CHECK(x.injects("nan:0.1", 4));
  CHECK_FALSE(x.injects("nan:0.0", 3));
  for (int again = 0; again < 2; ++again)
    CHECK(x.injects("nan:1.0", 3));
}

TEST_CASE("a keeper reaches its own moments, and others kill it at theirs", "[actors]") {
  const fault_injector x({.death = "keeper@4:redeem,keeper@4:forward,loader@4:acknowledged"});
  int killed = 0;
  x.enlist("keeper", [&](const std::string&) { ++killed; });
  x.pass("lane:0.0", 4, moment_of_step::redeem);
  CHECK(killed == 0);
  x.pass("lane:0.0", 4, moment_of_step::forward);
  CHECK(killed == 1);
  CHECK_THROWS(x.pass("keeper", 4, moment_of_step::redeem));
  x.enlist("loader", [&](const std::string&) { ++killed; });
  x.pass("keeper", 4, moment_of_step::acknowledged);  // a step of another process
  CHECK(killed == 1);
  x.pass("stage:0.0", 4, moment_of_step::acknowledged);
  CHECK(killed == 2);
  CHECK(x.deaths_to_come().empty());
}

TEST_CASE("the fate after an update names the array with the wrong bit", "[actors]") {
  const fault_injector x({.death = "lane:0.0@4:updated:wrong-moment,"
                                   "lane:0.1@4:updated:wrong-second-moment"});
  CHECK(x.pass("lane:0.0", 4, moment_of_step::updated) == fault_injector::fate::wrong_moment);
  CHECK(x.pass("lane:0.1", 4, moment_of_step::updated)
        == fault_injector::fate::wrong_second_moment);
}
