// What libtroupe_cuda.so does for this room: every operation, on the memory of a device.
//
// The plug-in exports `troupe_cuda_library`, which returns the one object of the process.

#pragma once

#include "kernels/backend/device_failure.hpp"
#include "kernels/backend/every_op.hpp"

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

/// How matrix products are computed on a device. Part of a run's identity.
struct product_settings {
  bool tf32 = false;    ///< fp32 products may round their inputs to 10 bits of fraction
  bool measure = true;  ///< false: the library's first guess, the same in every run
};

/// Any thread; operations of one queue are called by one thread at a time. An operation is put on
/// `context.queue` and has not finished when `run` returns. Failures throw device_failure.
class cuda_library {
 public:
  virtual ~cuda_library() = default;

#define TROUPE_DECLARE(op)                                        \
  virtual void run(const op<float>& what, const context& in) = 0; \
  virtual std::size_t scratch(const op<float>& what, int threads) = 0;
  TROUPE_EVERY_DEVICE_OP(TROUPE_DECLARE)
#undef TROUPE_DECLARE

#define TROUPE_DECLARE(op)                                            \
  virtual void run(const op<bf16>& what, const context& in) = 0;      \
  virtual std::size_t scratch(const op<bf16>& what, int threads) = 0; \
  virtual void run(const op<f16>& what, const context& in) = 0;       \
  virtual std::size_t scratch(const op<f16>& what, int threads) = 0;
  TROUPE_EVERY_NARROW_OP(TROUPE_DECLARE)
#undef TROUPE_DECLARE

  /// Before the first product.
  virtual void set_products(const product_settings& how) = 0;
  /// Choices of an earlier run: they are taken instead of measuring.
  virtual void give_choices(const std::vector<product_choice>& known) = 0;
  /// Of the products that were computed so far, by name.
  virtual std::vector<product_choice> choices() const = 0;

  /// "cuBLASLt 13.1.0.3, attention by cuDNN 9.19": what decides bits beside the choices.
  virtual std::string libraries() const = 0;
};

/// The library, opened on the first call. Throws backend_missing with the reason.
cuda_library& open_cuda();

}  // namespace troupe::kernels
