#include "runtime/watch/chrome_trace.hpp"

#include "runtime/core/json_text.hpp"
#include "runtime/watch/action_parts.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <limits>
#include <vector>

namespace troupe::tests {
namespace {

using namespace runtime;
using nlohmann::json;

view_timeline step(std::uint64_t iteration, double at) {
  return {.at = at,
          .iteration = iteration,
          .planned_ms = 9,
          .executed_ms = 10,
          .rows = {{.rank = 0, .executed = {{"0F0", 0, 2}}, .planned = {{"0F0", 0, 1.5}}},
                   {.rank = 1, .executed = {{"b1I12.3", 4, 6}}, .planned = {}}}};
}

std::vector<json> actions_of(const chrome_trace& x) {
  std::vector<json> out;
  const auto all = json_value(x.text());
  for (const auto& one : all.at("traceEvents"))
    if (one.at("ph") == "X")
      out.push_back(one);
  return out;
}

}  // namespace

TEST_CASE("a trace of a live run has a process per rank, with executed and planned actions") {
  chrome_trace trace;
  trace.add(step(17, 1000));
  trace.add(step(18, 1000.025));
  CHECK(trace.steps() == 2);
  const auto all = json_value(trace.text()).at("traceEvents");
  std::vector<std::string> names;
  for (const auto& one : all)
    if (one.at("ph") == "M")
      names.push_back(one.at("args").at("name"));
  CHECK(names
        == std::vector<std::string>{
            "pipeline rank 0", "executed", "planned", "pipeline rank 1", "executed", "planned"});
  const auto actions = actions_of(trace);
  REQUIRE(actions.size() == 6);
  CHECK(actions[0]["cat"] == "executed");
  CHECK(actions[0]["tid"] != actions[1]["tid"]);
  CHECK(actions[1]["cat"] == "planned");
  CHECK(actions[1]["dur"] == 1500);  // microseconds
  CHECK(actions[2]["pid"] == 1);
  CHECK(actions[2]["args"] == json{{"step", 17}, {"chunk", 1}, {"microbatch", 12}, {"block", 3}});
  // The second step begins 25 ms after the first.
  CHECK(actions[3]["ts"].get<double>() == Catch::Approx(25000));
}

TEST_CASE("steps of a trace do not overlap, although their records were late") {
  chrome_trace trace;
  trace.add(step(17, 1000));
  trace.add(step(18, 1000.001));
  CHECK(actions_of(trace)[3]["ts"].get<double>() == Catch::Approx(10000));
}

TEST_CASE("a trace takes any numbers and names that a record may have") {
  constexpr auto nan = std::numeric_limits<double>::quiet_NaN();
  auto x = step(17, nan);
  x.executed_ms = std::numeric_limits<double>::infinity();
  x.rows[0].rank = std::numeric_limits<int>::max();
  x.rows[1].rank = -1;
  x.rows[1].executed = {{"\"\x1b\xff", 5, 3}, {"", nan, 1}};
  chrome_trace trace;
  trace.add(x);
  const auto actions = actions_of(trace);
  REQUIRE(actions.size() == 4);
  CHECK(actions[2]["dur"] == 0);
  CHECK(actions[3]["ts"] == 0);
  CHECK(json_value(chrome_trace().text()).at("traceEvents").empty());
}

TEST_CASE("the parts of an action's name") {
  const auto x = action_parts_of("b1I3.2");
  CHECK(x.copy == "b");
  CHECK(x.kind == "I");
  CHECK(x.chunk == 1);
  CHECK(x.microbatch == 3);
  CHECK(x.block == 2);
  const auto plain = action_parts_of("0F7");
  CHECK(plain.copy.empty());
  CHECK(plain.microbatch == 7);
  CHECK(!plain.block);
  CHECK(!action_parts_of("").chunk);
  CHECK(!action_parts_of("99999999999999999999F1").chunk);
}

}  // namespace troupe::tests
