// Megatron-LM's own memory estimate for a job: the numbers of its log before training ("Theoretical
// memory footprints"). It is a formula; memory_forecast.hpp describes this program's memory.
//
// Korthikanti et al.: "Reducing Activation Recomputation in Large Transformer Models", 2022, table
// 2; megatron/training/theoretical_memory_usage.py. As in the source, biases are not counted,
// activations assume query matrices as wide as the residual stream, and only selective
// recomputation with sequence parallelism has its own formula.

#pragma once

#include "runtime/job/job.hpp"

#include <string>

namespace troupe::runtime {

/// Bytes of the worker with the highest need, in the first pipeline stage.
struct theoretical_memory {
  /// With gradients: 18 bytes per parameter; sharded: 6 + 12 / D.
  double weights_and_optimizer = 0;
  double activations = 0;

  double total() const { return weights_and_optimizer + activations; }
};

theoretical_memory megatron_memory(const training_job& job);

/// The line of Megatron-LM's log, in MB of 2^20 bytes.
std::string to_text(const theoretical_memory& x);

}  // namespace troupe::runtime
