// What Megatron-LM's own estimate says of a job: the numbers that its log prints before training
// ("Theoretical memory footprints"). A formula, not a rehearsal: it knows nothing of this program.
//
// Korthikanti et al.: "Reducing Activation Recomputation in Large Transformer Models", 2022, table
// 2; megatron/training/theoretical_memory_usage.py. As there, biases are not counted, every matrix
// of queries is taken to be as wide as the residual stream where activations are concerned, and
// only selective recomputation with sequence parallelism has a formula of its own.

#pragma once

#include "runtime/trainer/job.hpp"

#include <string>

namespace troupe::runtime {

/// Bytes of the worker that needs most: the first pipeline stage.
struct theoretical_memory {
  double weights_and_optimizer = 0;  ///< gradients too: 18 bytes a parameter, 6 + 12 / D sharded
  double activations = 0;

  double total() const { return weights_and_optimizer + activations; }
};

theoretical_memory megatron_memory(const training_job& job);

/// As Megatron-LM prints it, in MB of 2^20 bytes.
std::string to_text(const theoretical_memory& x);

}  // namespace troupe::runtime
