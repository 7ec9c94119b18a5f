// The CPU backend. Matrix products use AMX tiles if available, else oneDNN for more than a few
// rows, else own vector code. Grouped products never use oneDNN. Everything else uses Highway.
// Results depend only on the instruction set and the thread count, never on timing.

#pragma once

#include "kernels/op/every_op.hpp"

#include <string>

namespace troupe::kernels::cpu {

/// Each family's source defines its operations for their registered types except double.
#define TROUPE_DECLARE(op, types, memory) \
  template <class T>                      \
  void run(const op<T>& what, const context& in);
TROUPE_EVERY_OPERATION(TROUPE_DECLARE)
#undef TROUPE_DECLARE

// Scratch bytes of an operation; operations without a function here need none.
template <class T>
std::size_t scratch(const attention_forward<T>& op, int threads);
template <class T>
std::size_t scratch(const attention_backward<T>& op, int threads);
template <class T>
std::size_t scratch(const grouped_linear_forward<T>& op, int threads);
template <class T>
std::size_t scratch(const grouped_linear_backward_input<T>& op, int threads);
template <class T>
std::size_t scratch(const grouped_linear_backward_weight<T>& op, int threads);
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
std::size_t scratch(const sinkhorn<float>& op, int threads);
std::size_t scratch(const expert_quantile<float>& op, int threads);

/// Highway's and oneDNN's choices on this machine, e.g. "AVX3, oneDNN 2.6.3
/// cpu_isa_avx512_core_bf16". They change bits.
std::string instruction_set();

}  // namespace troupe::kernels::cpu
