// The operation tester: checks every operation on every backend. It returns a list of faults, one
// sentence each; an empty list means success.
//
// For a backend, with aligned and unaligned arrays, it checks:
//
// - Each result is within the case's allowed roundings of the double reference on the same inputs,
//   plus one rounding of its type.
// - Nothing else is written: results are poisoned first, and arrays have guards. Elements that the
//   reference leaves poisoned stay poisoned.
// - Every run gives the same bits, also with fewer threads than requested. If the case says so,
//   also for any thread count or alignment.
// - In-place results have the same bits. If the case says so, bits equal the reference's in the
//   same type.
// - bytes_moved() equals the bytes of the arrays.
//
// For a gradient, it compares the reference in double with finite differences.

#pragma once

#include "tests/kernels/op_case.hpp"

#include <span>

namespace troupe::tests {

class tested_backend {
 public:
  virtual ~tested_backend() = default;
  virtual std::string name() const = 0;
  virtual tested_memory& memory() = 0;
  /// Runs the operation with poisoned scratch of the declared size. Returns when it has finished.
  virtual void run(const kernels::operation& op, int threads) = 0;
  /// Runs it with fewer threads than requested, and in another order if the backend allows several.
  virtual void run_otherwise(const kernels::operation& op, int threads) = 0;
  /// Factor on a case's allowed roundings, for a backend with less exact instructions: other
  /// exponentials, or rounded factors.
  virtual double allowance(kernels::operation_name) const { return 1; }
  /// Additional error of a matrix product, in roundings of float relative to the largest result.
  virtual double roundings_of_products(const array& /*result*/, kernels::element_type) const {
    return 0;
  }
  /// Additional roundings to the result's type, e.g. of a product that is stored before its bias is
  /// added.
  virtual double roundings_between(kernels::operation_name, kernels::element_type) const {
    return 0;
  }
  virtual std::vector<int> team_sizes() const { return {1}; }
  virtual bool takes(const op_case& what) const = 0;
};

/// Tests all backends; the reference computes only once.
std::vector<std::string> complaints_of(std::span<tested_backend* const> backends,
                                       const op_case& what);
inline std::vector<std::string> complaints_of(tested_backend& backend, const op_case& what) {
  tested_backend* const one = &backend;
  return complaints_of(std::span(&one, 1), what);
}
std::vector<std::string> complaints_of(const gradient_case& what);

}  // namespace troupe::tests
