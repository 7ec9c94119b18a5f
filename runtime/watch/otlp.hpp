// A step's timeline as an OpenTelemetry trace: the body of a POST to /v1/traces, by OTLP/HTTP in
// JSON. Identifiers are hexadecimal, times are nanoseconds as decimal strings:
// https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
//
// A trace has one span for the step, one for each stage, and one for each action. Its identifiers
// depend only on the run, the iteration and the place in the timeline, so a trace that is sent
// twice is the same trace.

#pragma once

#include "runtime/watch/run_view.hpp"

#include <cstddef>
#include <string>

namespace troupe::runtime {

/// The step begins `executed_ms` before the time of its record. Actions beyond `most_spans` spans
/// are left out; the step's attribute `troupe.left_out` counts them.
std::string otlp_trace(const run_view& run,
                       const view_timeline& of,
                       std::size_t most_spans = 10000);

}  // namespace troupe::runtime
