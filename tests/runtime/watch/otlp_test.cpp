#include "runtime/watch/otlp.hpp"

#include "runtime/core/json_text.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace troupe::tests {
namespace {

using namespace runtime;
using nlohmann::json;

run_view run() {
  run_view out;
  out.take_run(R"({"id":"ab12","name":"small","program":"troupe 0.1.0","host":"kiwi"})");
  out.take(R"({"kind":"timeline","at":1000.5,"iteration":17,"planned_ms":9,"executed_ms":10,
      "bubble":0.25,"planned_bubble":0.2,"rows":[
      {"rank":0,"executed":[["0F0",0,2],["0I0.1",4,6.5]],"planned":[["0F0",0,1.5]]},
      {"rank":1,"executed":[["b1F12",2,4],["odd",4,3]],"planned":[]}]})");
  return out;
}

json spans_of(const std::string& body) {
  return json_value(body).at("resourceSpans").at(0).at("scopeSpans").at(0).at("spans");
}

/// The attributes of a span as texts.
std::map<std::string, std::string> attributes_of(const json& span) {
  std::map<std::string, std::string> out;
  for (const auto& one : span.at("attributes")) {
    const auto& value = one.at("value");
    REQUIRE(value.size() == 1);
    const auto& content = *value.begin();
    // 64-bit integers are strings in the JSON of Protocol Buffers.
    CHECK(content.is_string() == !value.contains("doubleValue"));
    out[one.at("key")] = content.is_string() ? content.get<std::string>() : json_text(content);
  }
  return out;
}

using texts = std::map<std::string, std::string>;

}  // namespace

TEST_CASE("a step is a trace with spans for the step, its stages and its actions") {
  const auto view = run();
  const auto spans = spans_of(otlp_trace(view, *view.timeline));
  REQUIRE(spans.size() == 7);
  std::set<std::string> traces, ids;
  std::map<std::string, json> by_name;
  for (const auto& one : spans) {
    traces.insert(one.at("traceId"));
    ids.insert(one.at("spanId"));
    by_name[one.at("name")] = one;
    CHECK(std::regex_match(one.at("traceId").get<std::string>(), std::regex("[0-9a-f]{32}")));
    CHECK(std::regex_match(one.at("spanId").get<std::string>(), std::regex("[0-9a-f]{16}")));
    CHECK(one.at("kind") == 1);
  }
  CHECK(traces.size() == 1);
  CHECK(ids.size() == 7);
  CHECK_FALSE(by_name["step"].contains("parentSpanId"));
  for (const auto* stage : {"stage:*.0", "stage:*.1"})
    CHECK(by_name[stage]["parentSpanId"] == by_name["step"]["spanId"]);
  for (const auto* action : {"0F0", "0I0.1"})
    CHECK(by_name[action]["parentSpanId"] == by_name["stage:*.0"]["spanId"]);
  for (const auto* action : {"b1F12", "odd"})
    CHECK(by_name[action]["parentSpanId"] == by_name["stage:*.1"]["spanId"]);

  // The step ends at its record's time.
  CHECK(by_name["step"]["startTimeUnixNano"] == "1000490000000");
  CHECK(by_name["step"]["endTimeUnixNano"] == "1000500000000");
  CHECK(by_name["stage:*.0"]["startTimeUnixNano"] == "1000490000000");
  CHECK(by_name["stage:*.0"]["endTimeUnixNano"] == "1000496500000");
  CHECK(by_name["b1F12"]["startTimeUnixNano"] == "1000492000000");
  CHECK(by_name["odd"]["endTimeUnixNano"] == by_name["odd"]["startTimeUnixNano"]);

  CHECK(attributes_of(by_name["step"])
        == texts{{"troupe.iteration", "17"},
                 {"troupe.planned_ms", "9.0"},
                 {"troupe.bubble", "0.25"},
                 {"troupe.planned_bubble", "0.2"}});
  CHECK(attributes_of(by_name["0F0"])
        == texts{{"troupe.rank", "0"},
                 {"troupe.stage", "stage:*.0"},
                 {"troupe.action", "F"},
                 {"troupe.chunk", "0"},
                 {"troupe.microbatch", "0"},
                 {"troupe.planned_begin_ms", "0.0"},
                 {"troupe.planned_end_ms", "1.5"}});
  CHECK(attributes_of(by_name["0I0.1"]).at("troupe.block") == "1");
  CHECK(attributes_of(by_name["b1F12"])
        == texts{{"troupe.rank", "1"},
                 {"troupe.stage", "stage:*.1"},
                 {"troupe.action", "F"},
                 {"troupe.chunk", "1"},
                 {"troupe.microbatch", "12"},
                 {"troupe.copy", "b"}});
}

TEST_CASE("the resource of a trace names the run") {
  const auto view = run();
  const auto body = json_value(otlp_trace(view, *view.timeline));
  CHECK(attributes_of(body.at("resourceSpans").at(0).at("resource"))
        == texts{{"service.name", "troupe"},
                 {"service.version", "troupe 0.1.0"},
                 {"service.instance.id", "ab12"},
                 {"host.name", "kiwi"},
                 {"troupe.run", "small"}});
}

TEST_CASE("identifiers depend only on the run and the iteration") {
  auto view = run();
  const auto first = otlp_trace(view, *view.timeline);
  CHECK(otlp_trace(view, *view.timeline) == first);
  const auto trace_of = [](const std::string& body) { return spans_of(body).at(0).at("traceId"); };
  view.timeline->executed_ms = 11;
  CHECK(trace_of(otlp_trace(view, *view.timeline)) == trace_of(first));
  view.timeline->iteration = 18;
  CHECK(trace_of(otlp_trace(view, *view.timeline)) != trace_of(first));
  view.timeline->iteration = 17;
  view.id = "cd34";
  CHECK(trace_of(otlp_trace(view, *view.timeline)) != trace_of(first));
}

TEST_CASE("a trace has a limit of spans, and counts the omitted ones") {
  const auto view = run();
  const auto spans = spans_of(otlp_trace(view, *view.timeline, 3));
  CHECK(spans.size() == 3);
  CHECK(attributes_of(spans.at(0)).at("troupe.left_out") == "4");
  CHECK(spans_of(otlp_trace(view, *view.timeline, 0)).size() == 1);
}

TEST_CASE("any numbers and names give a valid trace") {
  run_view view;
  view.name = "\xff";
  view_timeline odd{.at = std::numeric_limits<double>::quiet_NaN(), .executed_ms = -1e300};
  odd.rows = {{-1, {{"", 1e300, -1e300}, {"99999999999999999999F1", 0, INFINITY}}, {}}};
  const auto spans = spans_of(otlp_trace(view, odd));
  CHECK(spans.size() == 4);
  for (const auto& one : spans)
    CHECK(one.at("startTimeUnixNano") == "0");
  CHECK(spans_of(otlp_trace(view, {})).size() == 1);
}

}  // namespace troupe::tests
