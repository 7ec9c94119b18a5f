// A sampler: maps a row of a micro-batch to a sample of the data set. A pure function, so the order
// of the data depends neither on threads nor on earlier calls.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// The distribution of a global batch. All values are at least 1.
struct batch_layout {
  std::uint64_t micro_batch_size = 1;
  std::uint64_t data_parallel = 1;  ///< logical replicas
};

/// Identifies a micro-batch of a run; its contents are a pure function of these numbers.
struct microbatch_address {
  std::uint64_t consumed = 0;    ///< samples before this step
  std::uint64_t microbatch = 0;  ///< number within the step
  std::uint64_t replica = 0;     ///< logical replica

  friend bool operator==(const microbatch_address&, const microbatch_address&) = default;
};

/// The position in the run of row `row` (0 <= row < micro_batch_size) of micro-batch `micro_batch`
/// on replica `replica`, if `consumed` samples came before this global batch.
constexpr std::uint64_t sample_position(const batch_layout& layout,
                                        std::uint64_t consumed,
                                        std::uint64_t micro_batch,
                                        std::uint64_t replica,
                                        std::uint64_t row) {
  return consumed + (micro_batch * layout.data_parallel + replica) * layout.micro_batch_size + row;
}

enum class sampling : std::uint8_t {
  single,            ///< one epoch, in the order of the data set
  cyclic,            ///< shuffled epochs; each replica has its own shard of the samples
  cyclic_unsharded,  ///< shuffled epochs; all replicas share one order
};
std::string_view to_string(sampling x);

/// torch.randperm(n, generator=torch.Generator().manual_seed(seed)) on the CPU: 0 to n - 1 in
/// random order. Throws input_error above n = 2^32 / 20, where PyTorch uses another algorithm.
std::vector<std::uint32_t> torch_permutation(std::uint64_t n, std::uint32_t seed);

/// Megatron-LM's MegatronPretrainingSampler (single) or MegatronPretrainingRandomSampler (cyclic).
/// The latter shuffles each epoch with the number of the epoch as seed, not the seed of the run.
/// Any number of threads. Caches the orders of the last two epochs in use.
class sampler {
 public:
  /// Throws input_error when the data set is too short for one micro-batch per replica, or too long
  /// to shuffle. With sampling::single, ignores `samples`.
  sampler(sampling how, batch_layout layout, std::uint64_t samples);

  /// The sample of a row. Throws input_error when a cyclic run resumes at a position within an
  /// epoch that is not a multiple of one micro-batch per replica.
  std::uint64_t sample(const microbatch_address& at, std::uint64_t row) const;

 private:
  using order = std::shared_ptr<const std::vector<std::uint32_t>>;
  order of_epoch(std::uint64_t epoch) const;

  sampling how_;
  batch_layout layout_;
  std::uint64_t at_once_ = 0;   ///< samples of one micro-batch on all replicas
  std::uint64_t bucket_ = 0;    ///< samples that are shuffled together
  std::uint64_t an_epoch_ = 0;  ///< samples per epoch; the remainder is unused
  mutable std::mutex mutex_;
  struct shuffled_epoch {
    std::uint64_t number = 0;
    order all = {};
  };
  mutable shuffled_epoch latest_, before_;  ///< prefetching alternates between two epochs
};

}  // namespace troupe::runtime
