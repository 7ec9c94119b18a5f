// Devices of a job, and how its workers exchange tensors.

#pragma once

#include "runtime/core/setting.hpp"

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Collectives between workers.
enum class collectives : std::uint8_t {
  /// Workers read each other's memory, those of other processes through the host; sums in rank
  /// order.
  local,
  nccl,  ///< NCCL moves the data; sums in rank order: the same bits
  /// NCCL also sums, in its own order: other bits, equal in every run on equal machines
  nccl_fast,
};
std::string_view to_string(collectives x);  ///< the value of the flag

/// Transport of tensors between the workers of one process. Does not change bits.
enum class transports : std::uint8_t {
  tickets,  ///< the receiver takes over the tensor without a copy
  ucx,      ///< over UCX, as between processes
};
std::string_view to_string(transports x);  ///< the value of the flag

/// Settings of the cuda backend.
struct device_settings {
  std::vector<int> numbers;  ///< device of each worker, in turn; empty: all devices
  bool tf32 = false;         ///< use TF32 in fp32 matrix products
  /// Attention may sum its gradients in any order; two equal runs then agree only up to rounding.
  bool nondeterministic = false;
  bool measure_products = true;  ///< false: take the library's first heuristic
  /// File of measured algorithms; empty: in the user's cache.
  std::filesystem::path product_choices;
  collectives exchange = collectives::local;

  static constexpr auto changed_at_resume = at_resume::told;
  static constexpr auto fields() {
    using x = device_settings;
    return std::tuple(
        row("numbers", &x::numbers),
        row("tf32", &x::tf32)
            .own_flag({.name = "--allow-tf32",
                       .help
                       = "Lets fp32 matrix products on a GPU round their inputs to 10 bits of "
                         "fraction (TF32): faster, with other bits."}),
        row("nondeterministic", &x::nondeterministic)
            .own_flag(
                {.name = "--allow-nondeterministic",
                 .help
                 = "Lets cuDNN sum the gradients of attention in any order, by atomic additions. "
                   "Faster, and memory grows with the sequence length instead of its square. Two "
                   "runs of one configuration are then equal only up to rounding, so flags that "
                   "compare bits are refused: --recovery on, --verify-fraction, "
                   "--strict-identity. Without it, one configuration always has the same bits."}),
        row("measure_products", &x::measure_products),
        row("product_choices", &x::product_choices)
            .own_flag(
                {.name = "--product-choices",
                 .type = "FILE",
                 .default_value = "~/.cache/troupe/products.json",
                 .help
                 = "File with the chosen algorithms of matrix products on a GPU. Each is measured "
                   "once, so that later runs have the same bits; a copy is kept beside the "
                   "checkpoints. none: measures nothing and takes the library's first "
                   "suggestion."}),
        row("exchange", &x::exchange)
            .own_flag({.name = "--collectives",
                       .type = "NAME",
                       .help
                       = "How workers on GPUs reduce and exchange data. local: they read each "
                         "other's memory, between processes through the host's. nccl: NCCL "
                         "transfers, and sums are taken in rank order; the same bits as local. "
                         "nccl-fast: NCCL sums in its own order; other bits, which repeat in "
                         "every run on such machines; for one process."})
            .one_of(collectives::local, collectives::nccl, collectives::nccl_fast));
  }
};

}  // namespace troupe::runtime
