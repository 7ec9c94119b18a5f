// One tester of every operation on every backend. An answer is a list of what is wrong, a sentence
// each; empty: nothing.
//
//   on_backend   on arrays that begin aligned and not:
//                - right: each result within the roundings that its case allows of the reference in
//                  double on the same inputs, and one rounding of its type
//                - nothing else is written: results are poisoned before, and guarded; what the
//                  reference leaves poisoned stays so
//                - the same bits in every run, also where fewer threads come than were asked for;
//                  where its case says so, whatever number is asked for, or wherever arrays begin
//                - the same bits where a result takes the place of an input, and where its case
//                  says so as the reference has in the same type
//                - as many bytes as bytes_moved() declares
//   gradient     by finite differences, in double, on the reference

#pragma once

#include "tests/kernels/op_case.hpp"

#include <span>

namespace troupe::tests {

class tested_backend {
 public:
  virtual ~tested_backend() = default;
  virtual std::string name() const = 0;
  virtual tested_memory& memory() = 0;
  /// With the scratch that the operation declares, poisoned. Returns when it has finished.
  virtual void run(const kernels::operation& op, int threads) = 0;
  /// Another order of what may run in any, where there is one; with fewer threads than asked for.
  virtual void run_otherwise(const kernels::operation& op, int threads) = 0;
  /// How many times the roundings of a case its instructions cost, at worst: where it has other
  /// exponentials, say, or rounds what it multiplies.
  virtual double allowance(kernels::operation_name) const { return 1; }
  /// Roundings of float, relative to the largest result, that its way of multiplying costs beside
  /// those of the case.
  virtual double roundings_of_products(const array& /*result*/, kernels::element_type) const {
    return 0;
  }
  /// How many times a result is rounded to its type on the way: a product to which a bias is added
  /// after it was stored, say.
  virtual double roundings_between(kernels::operation_name, kernels::element_type) const {
    return 0;
  }
  virtual std::vector<int> team_sizes() const { return {1}; }
  virtual bool takes(const op_case& what) const = 0;
};

/// Each of the backends is asked; the reference computes once for all.
std::vector<std::string> complaints_of(std::span<tested_backend* const> backends,
                                       const op_case& what);
inline std::vector<std::string> complaints_of(tested_backend& backend, const op_case& what) {
  tested_backend* const one = &backend;
  return complaints_of(std::span(&one, 1), what);
}
std::vector<std::string> complaints_of(const gradient_case& what);

}  // namespace troupe::tests
