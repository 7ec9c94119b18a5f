// Fuzzes the log of a run: JSON lines or a table.

#include "runtime/telemetry/run_log.hpp"
#include "runtime/telemetry/run_table.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <cmath>

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  step_report one;
  one.iteration = 1;
  one.loss = 2.5;
  step_report two = one;
  two.iteration = 2;
  two.loss = 1.25;
  return {json_record(one, {}) + "\n" + json_record(two, {}) + "\n",
          csv_header() + csv_row(one, nullptr, {}) + csv_row(two, nullptr, {}),
          "iteration,loss\r\n3,0.5\r\n4,\r\n",
          "{\"iteration\":7,\"lm_loss\":1e-3,\"grad_norm\":null}\nno record\n"
          "{\"iteration\":7,\"validation_loss\":4.5}\n{\"iter"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"iteration",
          "\"iteration\": ",
          "nan",
          "inf",
          "-1",
          "1e300",
          "1e999",
          "18446744073709551615",
          "18446744073709551616",
          ",,",
          "\xff",
          "\n",
          "\r\n",
          "{",
          "}",
          "null",
          "[[[["};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::folder() / "x.jsonl";
  const auto text = fuzz::text_of(data, size);
  fuzz::put(path, text);
  iteration_of_json(text);
  iteration_of_row(text);
  fuzz::require(!columns_in(text).empty(), "a table has columns");
  fuzz::accepted([&] {
    const run_table found(path);
    const auto last = found.last_iteration();
    fuzz::require(!found.fields().empty(), "a log has a field");
    for (const auto& field : found.fields()) {
      const auto points = found.by_iteration(field);
      fuzz::require(!points.empty(), "a field has a number");
      for (std::size_t i = 0; i < points.size(); ++i) {
        fuzz::require(std::isfinite(points[i].y), "all numbers of a log are finite");
        fuzz::require(points[i].x >= 0 && points[i].x <= double(last)
                          && (i == 0 || points[i - 1].x <= points[i].x),
                      "points are in the order of their iterations");
      }
    }
  });
  return 0;
}
