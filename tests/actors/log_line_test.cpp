#include "actors/monitor/log_line.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("what a run says of its schedule is the mean of what was logged", "[actors]") {
  actors::pipeline_since_start all;
  all.add({.ms = 8, .planned_ms = 6, .bubble = 0.25, .planned_bubble = 0.125, .worst_late_ms = 3});
  all.add({.ms = 12, .planned_ms = 8, .bubble = 0.75, .planned_bubble = 0.375, .worst_late_ms = 2});
  const auto line = actors::pipeline_line(all, "1f1b");
  CHECK_THAT(line, ContainsSubstring("schedule 1f1b: bubble 50.0 %, planned 25.0 %"));
  CHECK_THAT(line, ContainsSubstring("a step's actions take 10.0 ms, planned 7.0;"));
  CHECK_THAT(line, ContainsSubstring("at most 3.00;") && ContainsSubstring("of the 2 steps"));
}
