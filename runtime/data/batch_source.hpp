// Sources of micro-batches: an interface, and its implementation over a data set.

#pragma once

#include "runtime/data/sample_dataset.hpp"
#include "runtime/data/sampler.hpp"

#include <memory>
#include <utility>

namespace troupe::runtime {

class batch_source {
 public:
  virtual ~batch_source() = default;

  /// See batch_schema.hpp. Each micro-batch has the same tensors. Throws input_error when a sample
  /// is beyond the end of the data set; only cyclic orders wrap around. Any thread.
  virtual bundle microbatch(const microbatch_address& at) const = 0;
};

/// Micro-batches of a data set, distributed over replicas as in Megatron-LM.
class dataset_source final : public batch_source {
 public:
  /// `ahead`: the number of micro-batches of a replica to prefetch at each call, across steps. The
  /// contents of a batch do not depend on it.
  dataset_source(std::shared_ptr<const sample_dataset> data,
                 batch_layout layout,
                 memory_pool pool,
                 sampling how = sampling::single,
                 std::uint64_t ahead = 0)
      : data_(std::move(data)),
        schema_(data_->schema()),
        layout_(layout),
        sampler_(how, layout, data_->size()),
        pool_(std::move(pool)),
        ahead_(ahead) {}

  bundle microbatch(const microbatch_address& at) const override;

 private:
  std::shared_ptr<const sample_dataset> data_;
  batch_schema schema_;
  batch_layout layout_;
  sampler sampler_;
  mutable memory_pool pool_;
  std::uint64_t ahead_;
};

}  // namespace troupe::runtime
