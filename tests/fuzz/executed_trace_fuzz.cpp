// A trace of a run, of which `troupe schedule draw --executed` reads a step.

#include "runtime/schedule/csv.hpp"
#include "runtime/schedule/draw.hpp"
#include "runtime/schedule/generators.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <sstream>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

const plan& planned() {
  static const plan it = generate("1f1b", {2, 0, 2});
  return it;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  std::string events;
  int pid = 0, at = 0;
  std::istringstream rows(to_csv(planned()));
  for (std::string row; std::getline(rows, row); ++pid) {
    std::istringstream actions(row);
    for (std::string name; std::getline(actions, name, ',');)
      // A run carries out B as I, then W.
      for (const char kind : std::string(name[1] == 'B' ? "IW" : "F")) {
        name[1] = kind;
        events += (events.empty() ? "" : ",\n")
                  + std::string(R"({"ph":"X","tid":0,"args":{"step":1},"name":")") + name
                  + R"(","pid":)" + std::to_string(pid) + R"(,"ts":)" + std::to_string(at += 10)
                  + R"(,"dur":5})";
      }
  }
  return {"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[" + events + "]}"};
}

std::vector<std::string> fuzz::dictionary() {
  return {
      "null", "-1", "1e999", "\"X\"", "{}", "\"step\":2", "\"pid\":7", "0F9", "1B0", "\"tid\":1"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepted([&] {
    const auto found = executed_from_trace(fuzz::text_of(data, size), "t.json", planned(), 1);
    fuzz::require(found.what.ranks.size() == planned().ranks.size(), "a row for each rank");
  });
  return 0;
}
