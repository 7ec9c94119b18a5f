// Interface to an external attention library; libtroupe_cudnn.so (kernels/cudnn) implements it.
//
// Besides troupe_plugin_build, the plug-in exports these C functions:
//
//   const char* troupe_attention_obstacle()        why it cannot run on this machine, without a
//                                                  final period; empty if it can
//   attention_library* troupe_attention_library()  the single instance of the process
//   const char* troupe_attention_trial(int)        builds all kinds of plans that training may
//                                                  need, nondeterministic ones included, for a
//                                                  small attention on the device of that number;
//                                                  one line per missing kind: which, why, and
//                                                  what runs instead; empty if none is missing
//
// For tests it may export, to be called while nothing runs:
//
//   void troupe_attention_limit(std::int64_t)      workspace limit in bytes for one launch of a
//                                                  backward pass; 0: the default
//
// The library runs every operation that it serves, unless TROUPE_ATTENTION selects another
// implementation (attention_choice.hpp). The others run in attention_forward.cu and
// attention_backward.cu. Results are interchangeable: the forward pass of one goes with the
// backward pass of the other.

#pragma once

#include "kernels/op/attention.hpp"

#include <cstddef>
#include <string>

namespace troupe::kernels::cuda {

/// Any thread may call it; operations of one queue come from one thread at a time.
///
/// serves    Depends only on the type, the numbers of the shape and the kind of the current device.
///           It reads no array and no pointer. The first call may compile kernels, for a second.
///           It refuses what the library cannot compute with the same meaning: shapes that are not
///           `uniform`, dropout (the mask must have the same bits in every implementation), strides
///           that it cannot express, and known errors of the library.
/// scratch   Workspace bytes for an operation that it serves; depends on the same.
/// run       Enqueues an operation that it serves on `in.queue`. Pointers are aligned to 16 bytes,
///           and there is at least one sequence, query and key. It allocates no device memory and
///           does not wait. Results are bitwise reproducible unless the shape's `same_bits` is
///           false. Throws device_failure.
class attention_library {
 public:
  virtual ~attention_library() = default;

#define TROUPE_DECLARE(op)                         \
  virtual bool serves(const op& what) const = 0;   \
  virtual std::size_t scratch(const op& what) = 0; \
  virtual void run(const op& what, const context& in) = 0;
  TROUPE_DECLARE(attention_forward<bf16>)
  TROUPE_DECLARE(attention_forward<f16>)
  TROUPE_DECLARE(attention_backward<bf16>)
  TROUPE_DECLARE(attention_backward<f16>)
#undef TROUPE_DECLARE

  virtual std::string version() const = 0;  ///< "cuDNN 9.19.0": the bits depend on it

  /// Why the first operation that it should serve was not served, without a final period. Empty:
  /// none.
  virtual std::string missing() const = 0;

  /// Why the first operation with `same_bits` false still runs deterministically: the library has
  /// nothing faster for it. Format as `missing`.
  virtual std::string fallback() const = 0;
};

using attention_obstacle_function = const char*();
using attention_library_function = attention_library*();
using attention_trial_function = const char*(int);
using attention_limit_function = void(std::int64_t);

}  // namespace troupe::kernels::cuda
