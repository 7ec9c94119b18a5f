// Reduction of gradients over replicas.

#pragma once

#include "runtime/core/setting.hpp"
#include "runtime/parameters/buckets.hpp"

#include <cstdint>

namespace troupe::runtime {

/// Sharding of gradients and optimizer state over the data axis. Only `grain` changes bits:
/// norms and digests are sums over grains.
struct reduction_settings {
  bool distributed_optimizer = false;   ///< ZeRO stage 1
  std::int64_t bucket_size = 40000000;  ///< elements
  bool overlap_gradients = false;
  bool overlap_parameters = false;
  std::int64_t grain = default_grain;  ///< elements that stay on one rank: see buckets.hpp

  static constexpr auto fields() {
    using x = reduction_settings;
    return std::tuple(
        row("distributed_optimizer", &x::distributed_optimizer)
            .flag({.name = "--use-distributed-optimizer",
                   .help = "Each replica keeps and updates only its share of master weights and "
                           "moments (ZeRO 1)."}),
        row("bucket_size", &x::bucket_size)
            .flag({.name = "--ddp-bucket-size",
                   .unit = "elements",
                   .help = "Approximate size of a gradient bucket.",
                   .megatron = "the default is 40000000 elements in every layout",
                   .range = whole_range{1, largest_count}}),
        row("overlap_gradients", &x::overlap_gradients)
            .flag({.name = "--overlap-grad-reduce",
                   .help = "Reduces a gradient bucket as soon as it is full, while the backward "
                           "pass continues."}),
        row("overlap_parameters", &x::overlap_parameters)
            .flag({.name = "--overlap-param-gather",
                   .help = "Gathers updated parameters while the next step runs. Needs "
                           "--use-distributed-optimizer and --overlap-grad-reduce.",
                   .megatron
                   = "refused without --use-distributed-optimizer and --overlap-grad-reduce"}),
        row("grain", &x::grain));
  }
};

}  // namespace troupe::runtime
