// An interface for data sets of numbered samples; a sample is one row of a micro-batch.

#pragma once

#include "runtime/tensor/micro_batch.hpp"

#include <cstdint>

namespace troupe::runtime {

/// Immutable; any number of threads may read at once. Sample i depends only on the arguments of the
/// constructor.
class sample_dataset {
 public:
  virtual ~sample_dataset() = default;

  virtual std::uint64_t size() const = 0;            ///< samples
  virtual std::int64_t sequence_length() const = 0;  ///< S, of every sample
  /// True if attention is limited to documents; then `row` gives their borders.
  virtual bool cuts_attention() const { return false; }
  /// Sample i as inputs, labels, loss mask and positions, S of each. Throws input_error when
  /// i >= size(), and for data that cannot be read.
  virtual void row(std::uint64_t i, const micro_batch_row& out) const = 0;
  /// Hint: `row` will soon be called for this sample. Ignored beyond the end.
  virtual void expect(std::uint64_t) const {}
};

}  // namespace troupe::runtime
