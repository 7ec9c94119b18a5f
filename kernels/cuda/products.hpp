// Matrix products on cuBLASLt, and the choice of their algorithms.
//
// When a product (shape, types, epilogue) first occurs on a kind of device, the candidates of the
// library are measured on the calling queue. The fastest is kept for the life of the process.
// `choices` exports the decisions; another process that gets them by `give` does not measure. A
// choice that cannot be used there is made again and reported.
//
// The bits of a sum depend on the algorithm. So the choices are part of a run's identity, including
// "no algorithm" for an epilogue.

#pragma once

#include "kernels/backend/cuda_library.hpp"

#include <memory>

namespace troupe::kernels::cuda {

/// The single instance of the process. Any thread.
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
  friend struct product_access;  ///< in products.cpp
};

}  // namespace troupe::kernels::cuda
