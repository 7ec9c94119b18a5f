// Memory of other programs for the same training, by formulas of a model family.

#pragma once

#include <algorithm>
#include <cstdint>

namespace troupe::runtime {

/// The properties of a job that the formulas need.
struct job_outline {
  int world = 1, tensor = 1, pipeline = 1;
  double stages_per_rank = 1;
  std::int64_t micro = 1;          ///< samples of a micro-batch
  std::int64_t global = 1;         ///< samples of a step
  std::int64_t microbatches = 1;   ///< of a replica in a step
  std::int64_t element_bytes = 4;  ///< of an activation
  bool distributed_optimizer = false;
  bool sequence_parallel = false;
  bool selective_recompute = false;
};

/// Megatron-LM's estimate: bytes of the worker with the highest need, in the first pipeline stage.
struct theoretical_memory {
  /// With gradients: 18 bytes per parameter; sharded: 6 + 12 / D.
  double weights_and_optimizer = 0;
  double activations = 0;

  double total() const { return weights_and_optimizer + activations; }
};

enum class pytorch_mode : std::uint8_t { eager, compiled };

/// PyTorch's memory on one device that holds the whole model. All sizes in bytes.
struct pytorch_memory {
  std::int64_t parameters = 0, gradients = 0, moments = 0, buckets = 0;
  std::int64_t cast = 0;         ///< low-precision copies of weights
  std::int64_t activations = 0;  ///< of one micro-batch, without the loss
  std::int64_t loss = 0;         ///< peak of the loss, from logits to the gradient of the head
  bool accumulates = false;      ///< several micro-batches per step: gradients exist at the loss
  bool together = false;         ///< all gradients of a micro-batch are returned at once

  friend bool operator==(const pytorch_memory&, const pytorch_memory&) = default;

  std::int64_t peak() const {
    const auto at_loss = cast + activations + loss;
    const auto all = parameters + moments + buckets;
    const auto most = std::max(at_loss, gradients);
    return all + (accumulates ? gradients + (together ? most : at_loss) : most);
  }
};

}  // namespace troupe::runtime
