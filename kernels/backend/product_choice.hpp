// Which algorithm of cuBLASLt computes which matrix product.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

/// Whose choices are given to a process.
enum class choices_of : std::uint8_t {
  others,    ///< a cache, or an earlier run: what they chose need not be chosen again
  this_run,  ///< that of a checkpoint from which the run goes on: its bits depend on them
};

/// A choice that was given and could not be taken: the product was chosen anew.
struct replaced_choice {
  product_choice before;
  choices_of whose = choices_of::others;
  std::string why;  ///< "cuBLASLt says CUBLAS_STATUS_NOT_SUPPORTED"
};

/// What has come of a process's products so far.
struct product_report {
  std::vector<replaced_choice> replaced;  ///< in the order in which it was found
  int measured = 0;                       ///< products
  double seconds = 0;                     ///< that measuring them took
};

}  // namespace troupe::kernels
