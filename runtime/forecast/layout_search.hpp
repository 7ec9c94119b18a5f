// Searches the fastest layouts of a model on a cluster.
//
// Every combination of tensor, pipeline, expert and data ranks, virtual stages, micro-batch,
// recomputation and optimizer that the model's sizes and the device's memory allow is compared by
// estimate_step and estimate_memory. The best combination for each number of tensor, pipeline and
// expert ranks is then forecast with a plan of each schedule.

#pragma once

#include "runtime/forecast/step_forecast.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

struct search_limits {
  std::vector<std::int64_t> tensor_divides;  ///< sizes that tensor ranks must divide
  std::int64_t experts = 0;                  ///< that expert ranks divide; 0: none
  double memory_share = 0.9;  ///< of the device's memory: drivers and fragments take the rest
  std::size_t results = 10;
};

struct found_layout {
  step_outline step;
  std::string schedule;
  int virtual_stages = 1;
  step_forecast forecast;
  double memory = 0;  ///< bytes of the largest rank, by formula
};

struct found_layouts {
  std::vector<found_layout> best;  ///< fastest first; empty: no layout fits
  std::size_t compared = 0;        ///< layouts that divide the model
  std::size_t too_large = 0;       ///< of them, those that need more memory
  double least_memory = 0;         ///< of all compared, bytes
};

/// `base`: world, order, batch and precision, which stay as they are. Takes seconds for thousands
/// of devices.
found_layouts search_layouts(const model_outline& model,
                             const step_outline& base,
                             const cluster_outline& on,
                             const search_limits& limits);

}  // namespace troupe::runtime
