// The log of a run that `troupe plot` reads: JSON lines, or a table.

#include "runtime/telemetry/run_table.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <cmath>

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  return {
      "{\"iteration\":1,\"lm_loss\":4.5,\"grad_norm\":null,\"state_digest\":\"0a\"}\n"
      "{\"iteration\":2,\"lm_loss\":4.25}\n{\"iteration\":2,\"validation_loss\":4.5}\n",
      "iteration,lm_loss,validation_loss\r\n1,4.5,\r\n2,4.25,4.5\r\n",
      "{\"iteration\":7,\"lm_loss\":1e-3}\nno record\n{\"iteration\":8,\"lm_loss\":2}\n{\"iter"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"nan",
          "inf",
          "-1",
          "1e999",
          "18446744073709551616",
          "\"iteration\":",
          "\r\n",
          ",,",
          "[[",
          "\xff"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto log = fuzz::folder() / "log";
  fuzz::put(log, fuzz::text_of(data, size));
  fuzz::accepted([&] {
    const run_table table(log);
    for (const auto& field : table.fields()) {
      const auto curve = table.by_iteration(field);
      fuzz::require(!curve.empty(), "a field has a number");
      fuzz::require(
          std::is_sorted(
              curve.begin(), curve.end(), [](const auto& a, const auto& b) { return a.x < b.x; }),
          "a curve goes from left to right");
      for (const auto& point : curve)
        fuzz::require(std::isfinite(point.y), "a curve has numbers alone");
    }
  });
  return 0;
}
