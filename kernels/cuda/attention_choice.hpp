// The choice between attention implementations: a library in a plug-in (attention_library.hpp), or
// our own kernels. Scalar kernels take every operation; tensor core kernels take some
// (tensor_cores_take).
//
// The environment variable TROUPE_ATTENTION decides, and nothing else: there is no measurement, and
// the order of calls does not matter.
//
//   (not set)  the library if its plug-in opens; scalar kernels for what it does not serve
//   own        tensor core kernels; scalar kernels for what those do not take
//   scalar     scalar kernels
//   cudnn      as if not set, but an operation that the library should serve and cannot is an error
//   cudnn,own  the library if its plug-in opens; for what it does not serve, as `own`

#pragma once

#include "kernels/backend/backend.hpp"
#include "kernels/backend/plugin.hpp"
#include "kernels/cuda/attention_library.hpp"
#include "kernels/cuda/host.hpp"

namespace troupe::kernels::cuda {

/// The value of TROUPE_ATTENTION.
enum class attention_wish : std::uint8_t {
  library_if_there,
  own,
  scalar,
  library,
  library_then_own
};

/// Own kernels for operations that no library computes.
enum class own_kernels : std::uint8_t { scalar, tensor_cores };

/// Null and the empty string mean "not set". Throws backend_missing for an unknown value.
attention_wish attention_wish_of(const char* text);

/// The library of a plug-in, or null for our own kernels. Throws backend_missing with the reason if
/// `wish` requires a library that cannot run here.
attention_library* attention_by(attention_wish wish, const plugin& (*open)());

/// Decided on the first call and fixed for the life of the process. Any thread.
attention_wish chosen_wish();
attention_library* chosen_attention();

own_kernels own_by(attention_wish wish);
own_kernels chosen_own();

/// Names the implementations that determine the bits: "attention by cuDNN 9.19.0", "attention by
/// troupe", "attention by troupe on tensor cores", "attention by cuDNN 9.19.0, else by troupe on
/// tensor cores".
std::string attention_version(attention_wish wish, const attention_library* library);

/// attention_library::missing and attention_library::fallback of the chosen library.
std::string missing_attention();
std::string attention_fallback();

/// Text for the user: 16-bit attention runs on slow scalar kernels, because tensor core kernels
/// were not requested. Says what and why, without a final period.
std::string why_scalar(const attention_shape& shape, const attention_library* library);

/// Stores the first such text of the process, unless TROUPE_ATTENTION requests own kernels or the
/// library has reported a reason itself. Any thread.
void note_scalar(const attention_shape& shape);
/// The stored text; empty: none yet. Any thread.
std::string scalar_attention();

/// Throws backend_missing if a library is required and lacks something that it should serve.
void check_missing(const attention_library& library, attention_wish wish = chosen_wish());

/// Throws std::logic_error if extents are unknown (ATTENTION-1), and backend_missing if the heads
/// are too large for our kernels.
void check_attention(const attention_shape& shape);

/// Runs the operation on our own kernels: tensor cores if requested and possible, otherwise scalar.
/// The pointers are those of the operation, and the workspace is its `scratch`.
///
/// Defined in attention_forward.cu and attention_backward.cu for float, bf16 and f16.
template <class Op>
void run_own(const Op& op, own_kernels by, const context& in);

/// True for 16-bit heads of up to 256 elements, in multiples of eight, with rows aligned to 16
/// bytes, no biases, and at least 16 queries in some sequence (one instruction takes 16). With few
/// queries and many keys, as in decoding, the scalar kernels are better: they spread the work over
/// the keys.
template <class Op>
bool tensor_cores_take(const Op& op);

/// Element types that a library can serve.
template <class Op>
concept may_be_served = requires(const attention_library& x, const Op& op) {
  x.serves(op);
};

/// The library if it serves the operation, otherwise null. Throws as check_missing. Only tests pass
/// `library`.
template <may_be_served Op>
attention_library* library_for(const Op& op, attention_library* library = chosen_attention()) {
  const bool some = op.shape.query_rows > 0 && op.shape.key_rows > 0;
  if (library == nullptr || !some || op.bias.values != nullptr)
    return nullptr;
  if (library->serves(op))
    return library;
  check_missing(*library);
  return nullptr;
}

/// Runs the operation on the library if possible. False: nothing was done.
template <class Op, class... Pointers>
bool run_by_library(const Op& op,
                    attention_library* library,
                    const context& in,
                    Pointers... pointers) {
  if constexpr (may_be_served<Op>) {
    auto* const by = library_for(op, library);
    if (by != nullptr && all_aligned(pointers...)) {
      by->run(op, in);
      return true;
    }
  }
  return false;
}

/// Enough scratch for both implementations: the choice also depends on pointers, which are not
/// known yet.
template <class Op>
std::size_t attention_scratch(const Op& op,
                              std::size_t own,
                              attention_library* library = chosen_attention()) {
  if constexpr (may_be_served<Op>) {
    auto* const by = library_for(op, library);
    const std::size_t other = by == nullptr ? 0 : by->scratch(op);
    return own < other ? other : own;
  } else {
    return own;
  }
}

}  // namespace troupe::kernels::cuda
