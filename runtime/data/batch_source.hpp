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

  /// Throws input_error when a sample is beyond the end of the data set: an order that is not
  /// cyclic never wraps around. Any thread.
  virtual micro_batch microbatch(const microbatch_address& at) const = 0;
};

/// From a data set, dealt out as Megatron deals it.
class dataset_source final : public batch_source {
 public:
  /// `ahead`: so many micro-batches of a replica are said to be read soon when one is asked for,
  /// those of the next steps among them. What a batch holds does not depend on it.
  dataset_source(std::shared_ptr<const sample_dataset> data,
                 batch_layout layout,
                 memory_pool pool,
                 sampling how = sampling::single,
                 std::uint64_t ahead = 0)
      : data_(std::move(data)),
        layout_(layout),
        sampler_(how, layout, data_->size()),
        pool_(std::move(pool)),
        ahead_(ahead) {}

  micro_batch microbatch(const microbatch_address& at) const override;

 private:
  std::shared_ptr<const sample_dataset> data_;
  batch_layout layout_;
  sampler sampler_;
  mutable memory_pool pool_;
  std::uint64_t ahead_;
};

}  // namespace troupe::runtime
