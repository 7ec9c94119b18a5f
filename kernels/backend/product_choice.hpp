// Which algorithm of cuBLASLt computes which matrix product.

#pragma once

#include <string>

namespace troupe::kernels {

/// The algorithm of a product with an epilogue for which the library has none, or refuses all: it
/// is a product without one, and a kernel.
inline constexpr const char* no_algorithm = "none";

/// A product's algorithm, chosen by measurement for a device, a shape and types.
struct product_choice {
  std::string product;      ///< all that the choice depends on: docs/formats/products.md
  std::string algorithm;    ///< hexadecimal digits: what cuBLASLt keeps of it; or no_algorithm
  double microseconds = 0;  ///< as measured; 0: taken without measuring
  int candidates = 1;       ///< among so many

  friend bool operator==(const product_choice&, const product_choice&) = default;
};

}  // namespace troupe::kernels
