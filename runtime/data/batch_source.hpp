// Where micro-batches come from.

#pragma once

#include "runtime/data/sample_dataset.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/tensor/micro_batch.hpp"

#include <memory>
#include <utility>

namespace troupe::runtime {

class batch_source {
 public:
  virtual ~batch_source() = default;

  /// Throws input_error when a sample is beyond the end of the data set: the order never wraps
  /// around. Any thread.
  virtual micro_batch microbatch(const microbatch_address& at) const = 0;
};

/// From a data set, dealt out as Megatron deals it.
class dataset_source final : public batch_source {
 public:
  dataset_source(std::shared_ptr<const sample_dataset> data, batch_layout layout, memory_pool pool)
      : data_(std::move(data)), layout_(layout), pool_(std::move(pool)) {}

  micro_batch microbatch(const microbatch_address& at) const override;

 private:
  std::shared_ptr<const sample_dataset> data_;
  batch_layout layout_;
  mutable memory_pool pool_;
};

}  // namespace troupe::runtime
