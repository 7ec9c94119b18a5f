// What libtroupe_cuda.so does for this room: every operation, on the memory of a device.
//
// The plug-in exports `troupe_cuda_library`, which returns the one object of the process.

#pragma once

#include "kernels/backend/device_failure.hpp"
#include "kernels/backend/product_choice.hpp"
#include "kernels/op/context.hpp"
#include "kernels/op/registry.hpp"

#include <string>
#include <vector>

namespace troupe::kernels {

/// How matrix products are computed on a device. Part of a run's identity.
struct product_settings {
  bool tf32 = false;    ///< fp32 products may round their inputs to 10 bits of fraction
  bool measure = true;  ///< false: the library's first guess, the same in every run
  /// What the run that this one goes on from chose is taken, or the run ends; false: it is chosen
  /// anew where it cannot be taken.
  bool strict = false;
};

/// Any thread; operations of one queue are called by one thread at a time. An operation is put on
/// `context.queue` and has not finished when `run` returns. Failures throw device_failure.
class cuda_library {
 public:
  virtual ~cuda_library() = default;

  /// In float, bf16 and f16 where it exists in them, with arrays on the device; any other is a
  /// broken promise: std::logic_error.
  virtual void run(const operation& what, const context& in) = 0;
  virtual std::size_t scratch(const operation& what) = 0;

  /// Before the first product.
  virtual void set_products(const product_settings& settings) = 0;
  /// They are taken instead of measuring, where the library takes them; what it does not take is
  /// chosen anew, and reported.
  virtual void give_choices(const std::vector<product_choice>& known, choices_of whose) = 0;
  /// Of the products that were computed so far, by name.
  virtual std::vector<product_choice> choices() const = 0;
  virtual product_report report_products() const = 0;

  /// "cuBLASLt 13.1.0.3, attention by cuDNN 9.19": what decides bits beside the choices.
  virtual std::string libraries() const = 0;
};

/// The library, opened on the first call. Throws backend_missing with the reason.
cuda_library& open_cuda();

}  // namespace troupe::kernels
