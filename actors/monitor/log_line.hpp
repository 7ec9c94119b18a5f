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

/// `x` is the newest of the steps in `since`; at least one.
std::string log_line(const runtime::step_report& x,
                     const since_last_line& since,
                     std::uint64_t train_iterations,
                     const runtime::log_settings& how);

}  // namespace troupe::actors
