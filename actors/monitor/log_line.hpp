// Megatron-LM's log line, with additions: docs/formats/log.md.

#pragma once

#include "runtime/model/segment.hpp"
#include "runtime/telemetry/run_log.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

/// Sums between two lines.
struct since_last_line {
  double loss = 0;  ///< of steps with an update and a loss
  double ms = 0;
  int steps = 0, losses = 0, skipped = 0, nan = 0;
  struct named {
    std::string name;
    double sum = 0;
    int steps = 0;  ///< steps in which this loss counts
  };
  std::vector<named> by_name = {};  ///< each loss of these steps

  void add(const runtime::step_report& x);
};

/// Pipeline times of the timed steps.
struct pipeline_since_start {
  runtime::pipeline_times sum = {.ms = 0};  ///< except the worst lateness, which is a maximum
  int steps = 0;

  void add(const runtime::pipeline_times& x);
};

/// Summary of the schedule at the end of a run, and its details for the debug log.
std::string pipeline_line(const pipeline_since_start& all, const std::string& schedule);
std::string pipeline_details(const pipeline_since_start& all);

/// `x` is the newest step in `since`, which has at least one.
std::string log_line(const runtime::step_report& x,
                     const since_last_line& since,
                     std::uint64_t train_iterations,
                     const runtime::log_settings& settings);

/// The short form for a terminal of 80 columns: "iter 100/300  loss 4.9090  norm 1.033  lr
/// 6.700E-04 ...". Drops parts from the end that do not fit.
std::string short_line(const runtime::step_report& x,
                       const since_last_line& since,
                       std::uint64_t train_iterations,
                       const runtime::log_settings& settings);

/// The line of a validation or a test. `losses`: those of the model, which say what has a
/// perplexity.
std::string evaluation_line(const runtime::validation_report& x,
                            const std::vector<runtime::loss_spec>& losses,
                            bool is_short);

/// " best accuracy on validation: 87.1200 % at iteration 300": `best` becomes the better of both.
/// Empty: a test, or a model without a measure "accuracy".
std::string best_line(const runtime::validation_report& x,
                      std::optional<runtime::validation_report>& best);

/// Example: " stage:0.1 died (...); after 0.012 s the run continues from iteration 6 with its
/// ranks' own state".
std::string event_line(const runtime::run_event& x);

}  // namespace troupe::actors
