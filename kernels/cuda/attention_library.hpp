// Attention that another library computes: what libtroupe_cudnn.so (kernels/cudnn) implements.
//
// The plug-in exports two C functions beside troupe_plugin_build:
//
//   const char* troupe_attention_obstacle()        why it cannot compute on this machine,
//                                                  a sentence without its end; empty if it can
//   attention_library* troupe_attention_library()  the one object of the process
//
//   const char* troupe_attention_trial(int)        makes ready, of a small one, every kind of plan
//                                                  that training may ask for on the device with
//                                                  that number, the faster ones of other bits, too:
//                                                  a line for each reason why some are not there:
//                                                  which, why, and what computes instead, without
//                                                  its end; empty: all are
//
// and may export, for tests, while nothing runs:
//
//   void troupe_attention_limit(std::int64_t)      bytes of workspace that a launch of a backward
//                                                  pass is cut to; 0: as ever
//
// Where it opened and the environment variable TROUPE_ATTENTION asks for no other
// (attention_choice.hpp), every operation that it serves is its own; all others are computed by
// attention_forward.cu and attention_backward.cu, whose results have the same meaning: forward of
// one and backward of the other go together.

#pragma once

#include "kernels/op/attention.hpp"

#include <cstddef>
#include <string>

namespace troupe::kernels::cuda {

/// Any thread; operations of one queue are called by one thread at a time.
///
/// serves    a function of the type, of the shape's numbers and of the kind of the current device:
///           no array is read, no pointer looked at. The first time it may compile kernels, for a
///           second. It refuses what it cannot do with the same meaning: shapes that are not
///           `uniform`, dropout, whose mask is to be the same bits whoever draws it, strides that
///           it cannot say, what its library computes wrongly
/// scratch   bytes of workspace for an operation that it serves: likewise
/// run       puts an operation that it serves on `in.queue`. The pointers are aligned to 16 bytes
///           and the shape has at least one sequence, query and key. No memory of the device is
///           allocated, nothing waited for, and the bits are the same every time, unless the
///           shape's `same_bits` is false. Throws device_failure
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

  virtual std::string version() const = 0;  ///< "cuDNN 9.19.0": decides bits

  /// Why the first operation that it should have served, and did not, was not: a sentence without
  /// its end. Empty: there is none.
  virtual std::string missing() const = 0;

  /// Why the first operation whose bits may be others each time (`same_bits` is false) is computed
  /// with the same bits: the library has nothing faster for it. As `missing`.
  virtual std::string fallback() const = 0;
};

using attention_obstacle_function = const char*();
using attention_library_function = attention_library*();
using attention_trial_function = const char*(int);
using attention_limit_function = void(std::int64_t);

}  // namespace troupe::kernels::cuda
