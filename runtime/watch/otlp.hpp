// Converts a step's timeline to an OpenTelemetry trace: the body of a POST to /v1/traces (OTLP/HTTP
// in JSON). Identifiers are hexadecimal; times are nanoseconds as decimal strings:
// https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
//
// A trace has one span for the step, one for each stage, and one for each action. Identifiers
// depend only on the run, the iteration and the place in the timeline. So a trace that is sent
// twice keeps its identifiers.

#pragma once

#include "runtime/watch/run_view.hpp"

#include <cstddef>
#include <string>

namespace troupe::runtime {

/// The trace of one timeline. Assumes that the step began `executed_ms` before the time of its
/// record. A trace has at most `most_spans` spans; the step's attribute `troupe.left_out` counts
/// the omitted ones.
std::string otlp_trace(const run_view& run,
                       const view_timeline& of,
                       std::size_t most_spans = 10000);

}  // namespace troupe::runtime
