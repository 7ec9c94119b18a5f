// The fast backend for processors: products in tiles where the processor has them, else, of more
// than a few rows, by oneDNN where that has them; Highway for the rest. The same bits for the same
// (instruction set, threads); no result depends on timing.

#pragma once

#include "kernels/op/every_op.hpp"

#include <string>

namespace troupe::kernels::cpu {

/// Defined for every operation, in the source of its family, in the types other than double that it
/// exists in.
#define TROUPE_DECLARE(op, types, memory) \
  template <class T>                      \
  void run(const op<T>& what, const context& in);
TROUPE_EVERY_OPERATION(TROUPE_DECLARE)
#undef TROUPE_DECLARE

// Scratch of the operations that need some. Every other operation needs none.
template <class T>
std::size_t scratch(const attention_forward<T>& op, int threads);
template <class T>
std::size_t scratch(const attention_backward<T>& op, int threads);
template <class T>
std::size_t scratch(const head_norm_backward_weight<T>& op, int threads);
template <class T>
std::size_t scratch(const norm_backward_weight<T>& op, int threads);
template <class T>
std::size_t scratch(const linear_forward<T>& op, int threads);
template <class T>
std::size_t scratch(const linear_backward_input<T>& op, int threads);
template <class T>
std::size_t scratch(const linear_backward_weight<T>& op, int threads);
std::size_t scratch(const square_norm<float>& op, int threads);
std::size_t scratch(const sample_token<float>& op, int threads);

/// What Highway and oneDNN chose on this machine, for it changes bits: e.g. "AVX3, oneDNN 2.6.3
/// cpu_isa_avx512_core_bf16".
std::string instruction_set();

}  // namespace troupe::kernels::cpu
