// Matrix products by cuBLASLt, and the choice of their algorithms.
//
// The first time a product of some shape, types and epilogue is asked for on a kind of device, the
// library's candidates are measured on the queue that asks, and the fastest is kept for the life of
// the process: `choices` names it, and given to another process it is taken there without
// measuring. What cannot be taken there is chosen anew, and reported. Sums of floats depend on the
// algorithm, so the choices are part of a run's identity; so is that there is none for an epilogue.

#pragma once

#include "kernels/backend/cuda_library.hpp"

#include <memory>

namespace troupe::kernels::cuda {

/// Any thread. One for the process.
class products {
 public:
  static products& of_process();

  void configure(const product_settings& settings);
  void give(const std::vector<product_choice>& known, choices_of whose = choices_of::others);
  product_report report() const;
  std::vector<product_choice> choices() const;
  std::string version() const;  ///< "cuBLASLt 13.1.0"

 private:
  products();
  ~products();
  struct state;
  std::unique_ptr<state> state_;
  friend struct product_access;  ///< products.cpp
};

}  // namespace troupe::kernels::cuda
