#include "runtime/schedule/draw.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/generators.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

drawn_timeline drawn(std::string_view name, int ranks, int microbatches) {
  const auto x = generate(name, {ranks, 0, microbatches});
  return {std::string(name),
          simulate(x, shared_costs({}, x.chunks * x.copies / ranks / x.copies)),
          x.copies};
}

std::size_t count(std::string_view what, std::string_view in) {
  std::size_t out = 0;
  for (auto at = in.find(what); at != in.npos; at = in.find(what, at + what.size()))
    ++out;
  return out;
}

/// The trace that a run of this plan writes, with I and W of each B separate, and other events.
std::string trace_of(const plan& x, const timeline& when, std::uint64_t step, int replicas) {
  nlohmann::json events = nlohmann::json::array();
  const auto add = [&](const std::string& name, int pid, std::uint64_t of, double ts, double dur) {
    events.push_back({{"ph", "X"},
                      {"pid", pid},
                      {"tid", 0},
                      {"name", name},
                      {"ts", ts},
                      {"dur", dur},
                      {"args", {{"step", of}}}});
  };
  for (std::size_t r = 0; r < when.ranks.size(); ++r)
    for (int d = 0; d < replicas; ++d) {
      const int pid = int(r) * replicas + d;
      add("begin", pid, step, 0, 1);
      add("eval 0F0", pid, step, 0, 1);
      for (const auto& a : when.ranks[r].actions) {
        const double ts = a.begin * 1000 + 500 + d, dur = (a.end - a.begin) * 1000;
        add(to_string(a.what, x.copies), pid, step + 1, ts + 1e6, dur);
        if (a.what.kind != action_kind::backward) {
          add(to_string(a.what, x.copies), pid, step, ts, dur);
          continue;
        }
        auto half = a.what;
        half.kind = action_kind::input_gradients;
        add(to_string(half, x.copies), pid, step, ts, dur / 2);
        half.kind = action_kind::weight_gradients;
        add(to_string(half, x.copies), pid, step, ts + dur / 2, dur / 2);
      }
    }
  return nlohmann::json{{"traceEvents", events}}.dump();
}

}  // namespace

TEST_CASE("a drawing has a box for each action, and a pair is two halves", "[schedule]") {
  for (const auto* name : {"gpipe", "zb-h1", "izb", "zb-v", "dualpipe", "dualpipev"}) {
    CAPTURE(name);
    const auto x = drawn(name, 4, 12);
    std::size_t actions = 0;
    for (const auto& rank : x.what.ranks)
      actions += rank.actions.size();
    const auto svg = to_svg({x});
    CHECK(count("<title>rank", svg) == actions);
    CHECK_THAT(svg, ContainsSubstring("makespan"));
    CHECK(count("second copy", svg) == (x.copies == 2 ? 1 : 0));
    CHECK(count("lighter", svg)
          == (std::string_view(name).find("zb-v") == 0 || std::string_view(name) == "izb"
                      || std::string_view(name) == "dualpipev"
                  ? 1
                  : 0));
  }
}

TEST_CASE("the legend names the kinds that occur", "[schedule]") {
  const auto with_b = to_svg({drawn("1f1b", 2, 3)});
  CHECK_THAT(with_b, ContainsSubstring("B: backward"));
  CHECK(count("W: weight gradients", with_b) == 0);
  const auto split = to_svg({drawn("zb-h1", 2, 3)});
  CHECK_THAT(split, ContainsSubstring("W: weight gradients"));
  CHECK(count("B: backward", split) == 0);
  CHECK(count("forward again", split) == 0);
}

TEST_CASE("memory is drawn on request", "[schedule]") {
  const auto x = drawn("1f1b", 4, 8);
  CHECK(count("#b9bec6", to_svg({x})) == 0);
  CHECK(count("#b9bec6", to_svg({x}, {1200, true})) == 5);
}

TEST_CASE("titles are escaped", "[schedule]") {
  auto x = drawn("1f1b", 2, 2);
  x.title = "a<b> & \"c\" \x01 \xFF \xC3\xA4 \xED\xA0\x80";
  const auto svg = to_svg({x});
  CHECK_THAT(svg,
             ContainsSubstring("a&lt;b&gt; &amp; &quot;c&quot; ? ? \xC3\xA4 ?"
                               "?"
                               "?<"));
}

TEST_CASE("drawings of large plans stay small", "[schedule]") {
  const auto x = drawn("izb", 64, 512);
  const auto svg = to_svg({x, x}, {1200, true});
  CHECK(svg.size() < 4'000'000);
  CHECK_THAT(svg, ContainsSubstring("too short to draw one by one"));
  CHECK(to_text({x}).size() < 100 * 66);
}

TEST_CASE("empty timelines and actions without duration are drawn without errors", "[schedule]") {
  CHECK_THAT(to_svg({}), ContainsSubstring("</svg>"));
  CHECK(to_text({}).empty());
  const auto x = generate("1f1b", {2, 0, 2});
  cost_model none;
  none.costs = {{0, 0, 0}};
  const drawn_timeline empty{"nothing", simulate(x, none)};
  CHECK(count("nan", to_svg({empty}, {1200, true})) == 0);
  CHECK(count("inf", to_svg({empty})) == 0);
  CHECK_THAT(to_text({empty}), ContainsSubstring("nothing: makespan 0"));
}

TEST_CASE("a text timeline has a line per rank and actions to scale", "[schedule]") {
  // 10 units of time, 4 columns each.
  CHECK(to_text({drawn("zb-h1", 2, 3)}, {3 + 40, false})
        == "zb-h1: makespan 10, bubble 10.0 %\n"
           "0  F0--F1--....I0--W0--F2--I1--W1--I2--W2--\n"
           "1  ....F0--I0--F1--I1--W0--F2--I2--W1--W2--\n");
  CHECK(to_text({drawn("zb-h1", 2, 3)}, {3 + 10, false})
        == "zb-h1: makespan 10, bubble 10.0 %\n"
           "0  FF.IWFIWIW\n"
           "1  .FIFIWFIWW\n");
  CHECK_THAT(to_text({drawn("dualpipev", 2, 4)}, {200, false}), ContainsSubstring("P---"));
}

TEST_CASE("text is coloured on request only, and ends uncoloured", "[schedule]") {
  const auto x = drawn("dualpipe", 2, 4);
  CHECK(count("\x1b", to_text({x})) == 0);
  const auto text = to_text({x}, {80, true});
  CHECK(count("\x1b[48;5;", text) > 4);
  CHECK(count("\x1b[0m\n", text) == 2);
}

TEST_CASE("a Chrome trace has a process per timeline, a thread per rank, a span per action",
          "[schedule]") {
  auto x = drawn("1f1b", 3, 4);
  x.title = "bad \xFF";
  const auto trace = nlohmann::json::parse(to_chrome_trace({x, x}));
  int spans = 0, counters = 0;
  for (const auto& e : trace["traceEvents"]) {
    spans += e["ph"] == "X";
    counters += e["ph"] == "C";
    if (e["ph"] == "X" && e["name"] == "1F2" && e["pid"] == 1) {
      CHECK(e["tid"] == 1);
      CHECK(e["dur"] == Approx(1000));
    }
  }
  CHECK(spans == 2 * 3 * 4 * 2);
  CHECK(counters > 0);
  const auto pairs = nlohmann::json::parse(to_chrome_trace({drawn("dualpipev", 2, 6)}));
  CHECK(std::any_of(pairs["traceEvents"].begin(), pairs["traceEvents"].end(), [](const auto& e) {
    return e["name"].template get<std::string>().find(" and ") != std::string::npos;
  }));
}

TEST_CASE("executed actions are read from a trace with any number of replicas", "[schedule]") {
  for (const auto* name : {"1f1b", "zb-h1", "izb", "zb-v", "v-min"})
    for (const int replicas : {1, 2}) {
      CAPTURE(name, replicas);
      const auto x = generate(name, {3, 0, 7});
      const auto planned = simulate(x, shared_costs({1, 1.2, 0.8}, x.chunks / 3));
      const auto read = executed_from_trace(trace_of(x, planned, 5, replicas), "t", x, 5).what;
      CHECK(read.makespan == Approx(planned.makespan));
      REQUIRE(read.ranks.size() == 3);
      for (std::size_t r = 0; r < 3; ++r) {
        const auto &a = read.ranks[r], &b = planned.ranks[r];
        REQUIRE(a.actions.size() == b.actions.size());
        for (std::size_t i = 0; i < a.actions.size(); ++i) {
          CHECK(a.actions[i].what == b.actions[i].what);
          CHECK(a.actions[i].begin == Approx(b.actions[i].begin).margin(1e-6));
          CHECK(a.actions[i].end == Approx(b.actions[i].end));
        }
        CHECK(a.busy == Approx(b.busy));
        CHECK(a.peak_chunks == b.peak_chunks);
      }
    }
}

TEST_CASE("pairs and copies of a trace are those of the plan", "[schedule]") {
  const auto x = generate("dualpipe", {4, 0, 12});
  const auto planned = simulate(x, {});
  const auto read = executed_from_trace(trace_of(x, planned, 1, 1), "t", x, 1).what;
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(read.ranks[r].actions.size() == planned.ranks[r].actions.size());
    CHECK(read.ranks[r].busy == Approx(planned.ranks[r].busy));
    CHECK(read.ranks[r].peak_chunks == planned.ranks[r].peak_chunks);
  }
}

TEST_CASE("a chunk that only the trace splits is one action of the plan", "[schedule]") {
  const auto x = one_forward_one_backward(1, 1);
  nlohmann::json events;
  double ts = 0;
  for (const auto* name : {"0F0", "0R0.1", "0I0.1", "0W0.1", "0R0", "0I0", "0W0"})
    events.push_back({{"ph", "X"},
                      {"pid", 0},
                      {"tid", 0},
                      {"name", name},
                      {"ts", ts += 1000},
                      {"dur", 1000},
                      {"args", {{"step", 1}}}});
  const auto read
      = executed_from_trace(nlohmann::json{{"traceEvents", events}}.dump(), "t", x, 1).what;
  REQUIRE(read.ranks[0].actions.size() == 2);
  CHECK(read.ranks[0].actions[1].begin == Approx(1));
  CHECK(read.ranks[0].actions[1].end == Approx(7));
}

TEST_CASE("a file that is not a trace, or belongs to another plan, is refused with the reason",
          "[schedule]") {
  const auto x = generate("zb-h1", {2, 0, 3});
  const auto planned = simulate(x, {});
  const auto good = trace_of(x, planned, 5, 1);
  const auto refused = [&](const std::string& text, std::uint64_t step, const std::string& why) {
    CHECK_THROWS_WITH(executed_from_trace(text, "t.json", x, step), ContainsSubstring(why));
    CHECK_THROWS_AS(executed_from_trace(text, "t.json", x, step), input_error);
  };
  refused("", 5, "'t.json' is not a trace of a run: its JSON ends too early, after 0 b");
  refused(good.substr(0, good.size() / 2), 5, "its JSON ends too early");
  refused("not JSON", 5, "invalid JSON at byte 2; give the file");
  refused("{}", 5, "no traceEvents");
  refused("[1, 2]", 5, "no traceEvents");
  refused("{\"traceEvents\": []}", 5, "no actions of any step");
  refused("{\"traceEvents\": [{\"ph\": \"X\", \"args\": {\"step\": \"a\"}}]}",
          5,
          "its events have another format");
  for (const auto* number : {"1e300", "118446744073709551615", "-1", "2.5"}) {
    refused(fmt::format(R"({{"traceEvents": [{{"ph": "X", "args": {{"step": {}}}}}]}})", number),
            5,
            "its events have another format");
    refused(fmt::format(R"({{"traceEvents": [{{"ph": "X", "args": {{"step": 5}}, "name": "0F0",
                             "ts": 1, "dur": 1, "pid": {}}}]}})",
                        number),
            5,
            "its events have another format");
  }
  refused("{\"traceEvents\": 1}", 5, "no actions of any step");
  refused(good, 7, "no step 7; it has 5 to 6");
  CHECK_THROWS_WITH(executed_from_trace(good, "t.json", generate("zb-h1", {2, 0, 4}), 5),
                    ContainsSubstring("lacks 0F3"));
  CHECK_THROWS_WITH(executed_from_trace(good, "t.json", generate("zb-h1", {3, 0, 3}), 5),
                    ContainsSubstring("2F0 on no rank"));
  CHECK_THROWS_WITH(executed_from_trace(good, "t.json", generate("zb-h1", {2, 0, 2}), 5),
                    ContainsSubstring("step 5 of the trace 't.json' has 0F2, which the plan "
                                      "'zb-h1' lacks: draw it with the plan of its run"));
  CHECK_THROWS_WITH(executed_from_trace(good, "t.json", generate("zb-h1", {1, 0, 3}), 5),
                    ContainsSubstring("has 1F0, which the plan"));
}

TEST_CASE("both copies of a trace must match the plan", "[schedule]") {
  const auto both = generate("dualpipe", {2, 0, 4});
  const auto text = trace_of(both, simulate(both, {}), 1, 1);
  auto one = both;
  one.copies = 1;
  one.microbatches = 2;
  one.placement.resize(2);
  for (auto& row : one.ranks) {
    std::erase_if(row, [](const action& a) { return value(a.copy) != 0; });
    for (auto& a : row)
      a.with_next = false;
  }
  CHECK_THROWS_WITH(executed_from_trace(text, "t", one, 1),
                    ContainsSubstring("has b1F0, which the plan"));
}

TEST_CASE("an executed order that differs from the plan is reported with the first difference",
          "[schedule]") {
  const auto planned = generate("gpipe", {2, 0, 8}), done = generate("1f1b", {2, 0, 8});
  const auto text = trace_of(done, simulate(done, {}), 1, 1);
  CHECK(executed_from_trace(text, "t", done, 1).other_order.empty());
  const auto read = executed_from_trace(text, "t", planned, 1);
  CHECK(read.other_order
        == std::vector<std::string>{
            "rank 0: from its 3rd action on the order differs from the plan: 0B0, planned 0F2",
            "rank 1: from its 2nd action on the order differs from the plan: 1B0, planned 1F1"});
}

TEST_CASE("pairs of actions that ran one after the other are counted, in either order",
          "[schedule]") {
  const auto x = generate("dualpipe", {4, 0, 12});
  const auto together = executed_from_trace(trace_of(x, simulate(x, {}), 1, 1), "t", x, 1);
  CHECK(together.pairs > 0);
  CHECK(together.pairs_apart == 0);
  auto apart = simulate(x, {});
  for (auto& rank : apart.ranks)
    for (std::size_t i = 0; i + 1 < rank.actions.size(); ++i)
      if (auto& a = rank.actions[i], &b = rank.actions[i + 1]; a.what.with_next) {
        const double middle = (a.begin + a.end) / 2;
        (i % 2 ? a : b).begin = middle;
        (i % 2 ? b : a).end = middle;
      }
  const auto read = executed_from_trace(trace_of(x, apart, 1, 1), "t", x, 1);
  CHECK(read.pairs == together.pairs);
  CHECK(read.pairs_apart == read.pairs);
  CHECK(read.other_order.empty());
  auto shown = drawn("dualpipe", 4, 12);
  shown.note = "one after the other";
  CHECK_THAT(to_text({shown}), ContainsSubstring(" %; one after the other\n"));
}
