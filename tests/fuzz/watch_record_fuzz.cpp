// Fuzzes the parsers of a viewer: JSON records and positions.

#include "runtime/telemetry/record_ring.hpp"
#include "runtime/telemetry/run_log.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <cmath>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

const log_settings settings{.throughput = true};

step_report measured_step() {
  step_report out;
  out.iteration = 7;
  out.loss = 2.5;
  out.grad_norm = 0.5;
  out.params_norm = 3;
  out.zero_gradients = 4;
  out.pipeline.ms = 2;
  out.scale.value = 64;
  out.state = {1, 2};
  return out;
}

run_event restart() {
  run_event out;
  out.iteration = 9;
  out.kind = "restart";
  out.who = "stage:0.1";
  out.from = "keeper";
  out.seconds = 0.5;
  return out;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {json_record(measured_step(), settings),
          json_record(validation_report{3, 2.25}),
          json_record(validation_report{3, 2.25, true}),
          json_record(restart()),
          text_of(viewer_position{3, 17}),
          R"({"kind":"step","at":1.5,"iteration":3,"grad_norm":null})"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"iteration\":",
          "\"event\":",
          "\"validation_loss\":",
          "\"grad_norm\":null",
          "\"state_digest\":",
          "null",
          "-1",
          "1e308",
          "1e999",
          "18446744073709551615",
          "18446744073709551616",
          "4294967296:",
          ":",
          "0:0",
          "[[[[",
          "\\u0000",
          "\xff",
          "{",
          "}"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::text_of(data, size);
  fuzz::accepted([&] {
    bool known = false;
    if (const auto at = read_viewer_position(text)) {
      known = true;
      fuzz::require(read_viewer_position(text_of(*at)) == at, "a position survives a round trip");
    }
    if (const auto x = read_step_record(text)) {
      known = true;
      fuzz::require(!std::isnan(x->grad_norm), "a norm is a number or infinite");
      const auto written = json_record(*x, {});
      const auto again = read_step_record(written);
      fuzz::require(again && json_record(*again, {}) == written, "a step survives a round trip");
    }
    if (const auto x = read_validation_record(text)) {
      known = true;
      const auto again = read_validation_record(json_record(*x));
      fuzz::require(again && again->iteration == x->iteration && again->test == x->test
                        && (again->loss == x->loss || std::isnan(x->loss)),
                    "a validation survives a round trip");
    }
    if (const auto x = read_event_record(text)) {
      known = true;
      const auto written = json_record(*x);
      const auto again = read_event_record(written);
      fuzz::require(again && json_record(*again) == written, "an event survives a round trip");
    }
    if (!known)
      throw input_error("neither a record nor a position");
  });
  return 0;
}
