// Records which cuBLASLt algorithm computes which matrix product.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::kernels {

/// The library lacks or refuses the epilogue: a plain product is followed by a kernel.
inline constexpr const char* no_algorithm = "none";

/// The algorithm of a product, measured for a device, shape and types.
struct product_choice {
  std::string product;      ///< everything that the choice depends on: docs/formats/products.md
  std::string algorithm;    ///< cuBLASLt's algorithm in hexadecimal digits; or no_algorithm
  double microseconds = 0;  ///< measured time; 0: not measured
  int candidates = 1;       ///< number of algorithms compared

  friend bool operator==(const product_choice&, const product_choice&) = default;
};

/// Origin of the choices given to a process.
enum class choices_of : std::uint8_t {
  others,    ///< a cache or an earlier run: they save measuring again
  this_run,  ///< the checkpoint that the run resumes from: its bits depend on them
};

/// A given choice that was unusable and was replaced.
struct replaced_choice {
  product_choice before;
  choices_of whose = choices_of::others;
  std::string why;  ///< "cuBLASLt says CUBLAS_STATUS_NOT_SUPPORTED"
};

/// Counts of a process's products so far.
struct product_report {
  std::vector<replaced_choice> replaced;  ///< in order of discovery
  int measured = 0;                       ///< number of products
  double seconds = 0;                     ///< time spent measuring
};

}  // namespace troupe::kernels
