// Samples by number: what a row of a micro-batch is made of.

#pragma once

#include "runtime/tensor/micro_batch.hpp"

#include <cstdint>

namespace troupe::runtime {

/// Immutable; any number of threads may read at once. What sample i is depends only on what the
/// data set was made from, never on what was read before.
class sample_dataset {
 public:
  virtual ~sample_dataset() = default;

  virtual std::uint64_t size() const = 0;            ///< samples
  virtual std::int64_t sequence_length() const = 0;  ///< S, of every sample
  /// Whether attention ends at documents: then `row` says where.
  virtual bool cuts_attention() const { return false; }
  /// Sample i as inputs, labels, loss mask and positions, S of each. Throws input_error when
  /// i >= size(), and for data that cannot be read.
  virtual void row(std::uint64_t i, const micro_batch_row& out) const = 0;
  /// Says that `row` will be asked for sample i soon. Nothing where there is none.
  virtual void expect(std::uint64_t) const {}
};

}  // namespace troupe::runtime
