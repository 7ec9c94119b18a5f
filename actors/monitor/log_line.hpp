// Megatron-LM's log line, with what we add: docs/formats/log.md.

#pragma once

#include "runtime/telemetry/run_log.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <cstdint>
#include <string>

namespace troupe::actors {

/// What is added up between two lines.
struct since_last_line {
  double loss = 0;  ///< of the steps that were updated with
  double ms = 0;
  int steps = 0, skipped = 0, nan = 0;

  void add(const runtime::step_report& x);
};

/// How the steps that were timed went through the pipeline.
struct pipeline_since_start {
  runtime::pipeline_times sum = {.ms = 0};  ///< but of the worst lateness, which is the worst
  int steps = 0;

  void add(const runtime::pipeline_times& x);
};

/// What a run says of its schedule when it ends, and what more who looks closely wants to know.
std::string pipeline_line(const pipeline_since_start& all, const std::string& schedule);
std::string pipeline_details(const pipeline_since_start& all);

/// `x` is the newest of the steps in `since`; at least one.
std::string log_line(const runtime::step_report& x,
                     const since_last_line& since,
                     std::uint64_t train_iterations,
                     const runtime::log_settings& settings);

/// The same for a terminal of 80 columns: "iter 100/300  loss 4.9090  norm 1.033  lr 6.700E-04
/// ...". What does not fit is left out, from the end.
std::string short_line(const runtime::step_report& x,
                       const since_last_line& since,
                       std::uint64_t train_iterations,
                       const runtime::log_settings& settings);

/// Of a validation or a test.
std::string evaluation_line(const runtime::validation_report& x, bool is_short);

/// " restart: stage 0.1 ... died ...; iteration 7 again, from the estate of 6 (0.012 s)".
std::string event_line(const runtime::run_event& x);

}  // namespace troupe::actors
