// Who computes attention: a library in its plug-in (attention_library.hpp), or kernels of our own,
// of which there are two kinds: scalar ones, for everything, and those on tensor cores.
//
// The environment variable TROUPE_ATTENTION says it:
//
//   (not set)  the library, if its plug-in opens; scalar kernels for what it does not serve
//   own        kernels on tensor cores; scalar ones for what those do not take
//   scalar     scalar kernels
//   cudnn      as where it is not set; what the library should serve and cannot is an error
//   cudnn,own  the library, if its plug-in opens; for what it does not serve as `own`
//
// Nothing else decides: no measurement, no order of calls.

#pragma once

#include "kernels/backend/backend.hpp"
#include "kernels/backend/plugin.hpp"
#include "kernels/cuda/attention_library.hpp"
#include "kernels/cuda/host.hpp"

namespace troupe::kernels::cuda {

/// What TROUPE_ATTENTION asks for.
enum class attention_wish : std::uint8_t {
  library_if_there,
  own,
  scalar,
  library,
  library_then_own
};

/// What computes where no library does.
enum class own_kernels : std::uint8_t { scalar, tensor_cores };

/// Null and the empty text ask for nothing. Throws backend_missing on another word.
attention_wish attention_wish_of(const char* text);

/// The library of a plug-in, or null for our own kernels. Throws backend_missing when the library
/// is asked for and cannot compute here, with the reason.
attention_library* attention_by(attention_wish wish, const plugin& (*open)());

/// Decided with the first call, for the life of the process. Any thread.
attention_wish chosen_wish();
attention_library* chosen_attention();

own_kernels own_by(attention_wish wish);
own_kernels chosen_own();

/// "attention by cuDNN 9.19.0", "attention by troupe", "attention by troupe on tensor cores",
/// "attention by cuDNN 9.19.0, else by troupe on tensor cores": what decides the bits.
std::string attention_version(attention_wish wish, const attention_library* library);

/// Of the chosen library, as attention_library::missing and attention_library::fallback.
std::string missing_attention();
std::string attention_fallback();

/// What a user is told of attention of 16 bits that scalar kernels compute although those on tensor
/// cores take it, as nobody asked for these: what, and why; a sentence without its end.
std::string why_scalar(const attention_shape& shape, const attention_library* library);

/// Remembers the first one of the process, where TROUPE_ATTENTION names no kernels of our own and
/// the library has not said itself what it lacks. Any thread.
void note_scalar(const attention_shape& shape);
/// Of that one; empty: none so far. Any thread.
std::string scalar_attention();

/// Throws backend_missing when the library is asked for and lacks something that it should serve.
void check_missing(const attention_library& library, attention_wish wish = chosen_wish());

/// Throws std::logic_error when the extents are not known (ATTENTION-1), backend_missing when heads
/// are larger than our kernels take.
void check_attention(const attention_shape& shape);

/// By kernels of our own: those on tensor cores, where they are asked for and take the operation,
/// or the scalar ones. Pointers as in the operation; the workspace is `scratch` of it.
///
/// attention_forward.cu, attention_backward.cu: of float, bf16 and f16.
template <class Op>
void run_own(const Op& op, own_kernels by, const context& in);

/// Heads of up to 256 numbers of 16 bits, a multiple of eight, and rows that are aligned to 16
/// bytes; at least 16 queries in some sequence, which is what an instruction takes at once. A few
/// queries of many keys, as in decoding, are better spread over their keys, as the scalar ones do.
template <class Op>
bool tensor_cores_take(const Op& op);

/// Of a type that libraries know.
template <class Op>
concept may_be_served = requires(const attention_library& x, const Op& op) {
  x.serves(op);
};

/// The library, where it serves the operation, or null. As check_missing. Arguments `library` are
/// for tests.
template <may_be_served Op>
attention_library* library_for(const Op& op, attention_library* library = chosen_attention()) {
  const bool some = op.shape.query_rows > 0 && op.shape.key_rows > 0;
  if (library == nullptr || !some)
    return nullptr;
  if (library->serves(op))
    return library;
  check_missing(*library);
  return nullptr;
}

/// Runs the operation by the library, if it may: where false is returned nothing was done.
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

/// Scratch for both ways to compute it: which one is taken depends on pointers, too.
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
