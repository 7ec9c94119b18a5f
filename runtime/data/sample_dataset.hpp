// An interface for data sets of numbered samples.

#pragma once

#include "runtime/tensor/batch_schema.hpp"

#include <cstdint>

namespace troupe::runtime {

/// Immutable; any number of threads may read at once. Sample i depends only on the arguments of the
/// constructor.
class sample_dataset {
 public:
  virtual ~sample_dataset() = default;

  virtual std::uint64_t size() const = 0;  ///< samples
  /// The tensors of every sample.
  virtual batch_schema schema() const = 0;
  /// Fills all tensors of the schema with sample i, and gives the borders of its documents if the
  /// schema has them. Throws input_error when i >= size(), and for data that cannot be read.
  virtual void fill(std::uint64_t i, const sample_view& out) const = 0;
  /// Hint: `fill` will soon be called for this sample. Ignored beyond the end.
  virtual void expect(std::uint64_t) const {}
};

}  // namespace troupe::runtime
