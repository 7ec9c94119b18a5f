// Which sample a row of a micro-batch is: a pure function, so that the order of the data does not
// depend on who asks, when, or after what.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

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

/// The number in the whole run of row `row` (0 <= row < micro_batch_size) of micro-batch
/// `micro_batch` on replica `replica`, when `consumed` samples came before this global batch.
constexpr std::uint64_t sample_position(const batch_layout& layout,
                                        std::uint64_t consumed,
                                        std::uint64_t micro_batch,
                                        std::uint64_t replica,
                                        std::uint64_t row) {
  return consumed + (micro_batch * layout.data_parallel + replica) * layout.micro_batch_size + row;
}

enum class sampling : std::uint8_t {
  single,            ///< in the order of the data set, once
  cyclic,            ///< epoch after epoch, each in its own order; a replica has its share of them
  cyclic_unsharded,  ///< the same, all replicas from one order
};
std::string_view to_string(sampling x);

/// torch.randperm(n, generator=torch.Generator().manual_seed(seed)) on the CPU: 0 to n - 1 in
/// random order. n is at most 2^32 / 20, above which PyTorch draws otherwise; throws input_error.
std::vector<std::uint32_t> torch_permutation(std::uint64_t n, std::uint32_t seed);

/// Samples by their place in the run: Megatron-LM's MegatronPretrainingSampler, or its
/// MegatronPretrainingRandomSampler, whose epochs are shuffled by their numbers, not by the seed of
/// the run. Any number of threads may ask at once; it keeps the orders of the last two epochs that
/// were asked for.
class sampler {
 public:
  /// Throws input_error when a data set is too short for one micro-batch on every replica, or too
  /// long to be shuffled. single: `samples` is not looked at.
  sampler(sampling how, batch_layout layout, std::uint64_t samples);

  /// The sample in the data set of a row. Throws input_error when a cyclic run resumes where its
  /// micro-batches of all replicas do not divide an epoch.
  std::uint64_t sample(const microbatch_address& at, std::uint64_t row) const;

 private:
  using order = std::shared_ptr<const std::vector<std::uint32_t>>;
  order of_epoch(std::uint64_t epoch) const;

  sampling how_;
  batch_layout layout_;
  std::uint64_t at_once_ = 0;   ///< samples of a micro-batch on all replicas
  std::uint64_t bucket_ = 0;    ///< that are shuffled together
  std::uint64_t an_epoch_ = 0;  ///< what is left over is not seen
  mutable std::mutex mutex_;
  struct shuffled_epoch {
    std::uint64_t number = 0;
    order all = {};
  };
  mutable shuffled_epoch latest_, before_;  ///< who reads ahead goes to and fro at an epoch's end
};

}  // namespace troupe::runtime
