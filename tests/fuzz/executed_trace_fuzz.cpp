// Fuzzes the trace of a run, from which `troupe schedule draw` takes the executed actions.

#include "runtime/schedule/draw.hpp"
#include "runtime/schedule/generators.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

const plan& planned() {
  static const auto out = one_forward_one_backward(2, 2);
  return out;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  auto events = nlohmann::json::array({{{"ph", "M"}, {"pid", 0}, {"name", "process_name"}}});
  double at = 0;
  const auto add = [&](std::size_t process, action what) {
    events.push_back({{"ph", "X"},
                      {"pid", process},
                      {"tid", 0},
                      {"name", to_string(what)},
                      {"ts", at += 1000},
                      {"dur", 500},
                      {"args", {{"step", 1}}}});
  };
  for (std::size_t rank = 0; rank < planned().ranks.size(); ++rank)
    for (auto what : planned().ranks[rank]) {
      if (what.kind != action_kind::backward) {
        add(rank, what);
        continue;
      }
      for (const auto half : {action_kind::input_gradients, action_kind::weight_gradients}) {
        what.kind = half;  // a run executes B as I, then W
        add(rank, what);
      }
    }
  return {nlohmann::json{{"traceEvents", events}}.dump()};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"traceEvents\"",
          "\"step\": 1",
          "0B0",
          "0R0.1",
          "0F9",
          "1B0",
          "\"pid\": 7",
          "\"tid\": 1",
          "\"step\": 2",
          "1e999",
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
    fuzz::require(found.what.ranks.size() == planned().ranks.size(), "a row for each rank");
    for (std::size_t rank = 0; rank < planned().ranks.size(); ++rank)
      fuzz::require(found.what.ranks[rank].actions.size() == planned().ranks[rank].size(),
                    "each planned action was executed");
    fuzz::require(!std::isnan(found.what.makespan), "a step has a duration");
  });
  return 0;
}
