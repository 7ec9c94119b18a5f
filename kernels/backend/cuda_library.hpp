// Interface of libtroupe_cuda.so: runs every operation on device memory. The plug-in exports
// `troupe_cuda_library`, which returns the process's only instance.

#pragma once

#include "kernels/backend/device_failure.hpp"
#include "kernels/backend/product_choice.hpp"
#include "kernels/op/context.hpp"
#include "kernels/op/registry.hpp"

#include <string>
#include <vector>

namespace troupe::kernels {

/// Settings of matrix products on a device. Part of a run's identity.
struct product_settings {
  bool tf32 = false;  ///< fp32 products may round their inputs to TF32 (10 fraction bits)
  bool measure
      = true;  ///< false: takes the library's first heuristic result, the same in every run
  /// true: an unusable choice of the resumed run ends this run. false: such a choice is replaced by
  /// a new one.
  bool strict = false;
};

/// Thread-safe, but operations of one queue must come from one thread at a time. Work is
/// asynchronous: `run` returns before the operation on `context.queue` has finished. Failures throw
/// device_failure.
class cuda_library {
 public:
  virtual ~cuda_library() = default;

  /// Takes registered operations in float, bf16 and f16 with device arrays. Throws std::logic_error
  /// for others.
  virtual void run(const operation& what, const context& in) = 0;
  virtual std::size_t scratch(const operation& what) = 0;

  /// Call before the first product.
  virtual void set_products(const product_settings& settings) = 0;
  /// Uses these choices instead of measuring. A choice that the library refuses is replaced and
  /// reported.
  virtual void give_choices(const std::vector<product_choice>& known, choices_of whose) = 0;
  /// The choices of all products computed so far, sorted by name.
  virtual std::vector<product_choice> choices() const = 0;
  virtual product_report report_products() const = 0;

  /// "cuBLASLt 13.1.0.3, attention by cuDNN 9.19": the versions that decide bits besides the
  /// choices.
  virtual std::string libraries() const = 0;
};

/// Opens the library on the first call. Throws backend_missing with the reason.
cuda_library& open_cuda();

}  // namespace troupe::kernels
