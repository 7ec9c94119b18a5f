// Texts and JSON of `troupe forecast`.

#pragma once

#include "runtime/forecast/job_forecast.hpp"
#include "runtime/forecast/layout_search.hpp"

#include <cstdint>
#include <string>

namespace troupe::command {

/// A job's forecast with what it is of.
struct told_forecast {
  const runtime::training_job& job;
  const runtime::cluster_outline& on;
  runtime::job_forecast of;
  runtime::forecast_group largest;  ///< the workers that need most memory
};

std::string forecast_page(const told_forecast& x);
std::string forecast_json(const told_forecast& x);

/// A search's results with what they are of.
struct told_search {
  const runtime::training_job& job;
  const runtime::cluster_outline& on;
  int world = 0;
  std::int64_t global = 0;  ///< samples of a step
  double flops = 0;         ///< of a step
  runtime::found_layouts found;
};

/// Throws input_error if no layout fits.
std::string search_page(const told_search& x);
std::string search_json(const told_search& x);

}  // namespace troupe::command
