// Where micro-batches come from.

#pragma once

#include "runtime/data/batch.hpp"
#include "runtime/tensor/tensor.hpp"

#include <memory>

namespace troupe::runtime {

/// Which micro-batch: a pure function of these numbers.
struct microbatch_address {
  std::uint64_t consumed = 0;    ///< samples before this step
  std::uint64_t microbatch = 0;  ///< in the step
  std::uint64_t replica = 0;     ///< logical

  friend bool operator==(const microbatch_address&, const microbatch_address&) = default;
};

class batch_source {
 public:
  virtual ~batch_source() = default;

  /// "tokens", "labels", "positions" (B, T) i32, "mask" (B, T) f32, "samples" (B) u64. Throws
  /// input_error when the data set has no such samples. Any thread.
  virtual bundle microbatch(const microbatch_address& at) const = 0;
};

/// From a GPT data set, dealt out as Megatron deals it.
class dataset_source final : public batch_source {
 public:
  dataset_source(std::shared_ptr<const gpt_dataset> data, batch_layout layout, memory_pool pool)
      : data_(std::move(data)), layout_(layout), pool_(std::move(pool)) {}

  bundle microbatch(const microbatch_address& at) const override;

 private:
  std::shared_ptr<const gpt_dataset> data_;
  batch_layout layout_;
  mutable memory_pool pool_;
};

/// The bundle of a batch.
bundle to_bundle(const batch& x, memory_pool& pool);

}  // namespace troupe::runtime
