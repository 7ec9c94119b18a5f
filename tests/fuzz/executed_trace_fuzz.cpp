// The trace of a run, of which `troupe schedule draw` takes what was executed.

#include "runtime/schedule/draw.hpp"
#include "runtime/schedule/generators.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

const plan& planned() {
  static const auto out = one_forward_one_backward(1, 2);
  return out;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  auto events = nlohmann::json::array({{{"ph", "M"}, {"pid", 0}, {"name", "process_name"}}});
  double at = 0;
  for (const auto* name : {"0F0", "0I0", "0W0", "0F1", "0I1", "0W1"})
    events.push_back({{"ph", "X"},
                      {"pid", 0},
                      {"tid", 0},
                      {"name", name},
                      {"ts", at += 1000},
                      {"dur", 1000},
                      {"args", {{"step", 1}}}});
  return {nlohmann::json{{"traceEvents", events}}.dump()};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"traceEvents\"",
          "\"step\": 1",
          "0B0",
          "0R0.1",
          "1e300",
          "-1",
          "null",
          "18446744073709551615",
          "[[[[",
          "\"X\"",
          "{}",
          "2.5",
          "true"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepted([&] {
    const auto found = executed_from_trace(fuzz::text_of(data, size), "t.json", planned(), 1);
    fuzz::require(found.what.ranks.size() == 1 && found.what.ranks[0].actions.size() == 4,
                  "every planned action was executed");
    fuzz::require(!std::isnan(found.what.makespan), "a step took a time");
  });
  return 0;
}
