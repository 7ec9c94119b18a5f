// Which sample a row of a micro-batch is: a pure function, so that the order of the data does not
// depend on who asks, when, or after what (Megatron's sequential sampler).

#pragma once

#include <cstdint>

namespace troupe::runtime {

/// How a global batch is dealt out. All are at least 1.
struct batch_layout {
  std::uint64_t micro_batch_size = 1;
  std::uint64_t data_parallel = 1;  ///< logical replicas
};

/// Which micro-batch of a run: what it holds is a pure function of these numbers.
struct microbatch_address {
  std::uint64_t consumed = 0;    ///< samples before this step
  std::uint64_t microbatch = 0;  ///< in the step
  std::uint64_t replica = 0;     ///< logical

  friend bool operator==(const microbatch_address&, const microbatch_address&) = default;
};

/// The number in the data set of row `row` (0 <= row < micro_batch_size) of micro-batch
/// `micro_batch` on replica `replica`, when `consumed` samples came before this global batch.
constexpr std::uint64_t sample_position(const batch_layout& layout,
                                        std::uint64_t consumed,
                                        std::uint64_t micro_batch,
                                        std::uint64_t replica,
                                        std::uint64_t row) {
  return consumed + (micro_batch * layout.data_parallel + replica) * layout.micro_batch_size + row;
}

}  // namespace troupe::runtime
