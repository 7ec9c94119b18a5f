// The fast backend for processors: oneDNN for matrix products, Highway for the rest. The same bits
// for the same (instruction set, threads); no result depends on timing.

#pragma once

#include "kernels/op/activation.hpp"
#include "kernels/op/adamw.hpp"
#include "kernels/op/attention.hpp"
#include "kernels/op/bias.hpp"
#include "kernels/op/cast.hpp"
#include "kernels/op/cross_entropy.hpp"
#include "kernels/op/dropout.hpp"
#include "kernels/op/embedding.hpp"
#include "kernels/op/fingerprint.hpp"
#include "kernels/op/head_norm.hpp"
#include "kernels/op/linear.hpp"
#include "kernels/op/masked_loss.hpp"
#include "kernels/op/norm.hpp"
#include "kernels/op/rope.hpp"
#include "kernels/op/sample.hpp"
#include "kernels/op/sum.hpp"

#include <string>

namespace troupe::kernels::cpu {

// Templates are defined for T = float, bf16 and f16.

// linear.cpp
template <class T>
void run(const linear_forward<T>& op, const context& in);
template <class T>
void run(const linear_backward_input<T>& op, const context& in);
template <class T>
void run(const linear_backward_weight<T>& op, const context& in);
// bias.cpp
template <class T>
void run(const bias_backward<T>& op, const context& in);
// attention_forward.cpp, attention_backward.cpp
template <class T>
void run(const attention_forward<T>& op, const context& in);
template <class T>
void run(const attention_backward<T>& op, const context& in);
// norm.cpp
template <class T>
void run(const norm_forward<T>& op, const context& in);
template <class T>
void run(const norm_backward_input<T>& op, const context& in);
template <class T>
void run(const norm_backward_weight<T>& op, const context& in);
// head_norm.cpp
template <class T>
void run(const head_norm_forward<T>& op, const context& in);
template <class T>
void run(const head_norm_backward_input<T>& op, const context& in);
template <class T>
void run(const head_norm_backward_weight<T>& op, const context& in);
// activation.cpp
template <class T>
void run(const activation_forward<T>& op, const context& in);
template <class T>
void run(const activation_backward<T>& op, const context& in);
// rope.cpp
template <class T>
void run(const rope<T>& op, const context& in);
// embedding.cpp
template <class T>
void run(const embedding_forward<T>& op, const context& in);
template <class T>
void run(const embedding_backward<T>& op, const context& in);
// cross_entropy.cpp, cross_entropy_merge.cpp
template <class T>
void run(const cross_entropy_forward<T>& op, const context& in);
template <class T>
void run(const cross_entropy_backward<T>& op, const context& in);
void run(const cross_entropy_merge<float>& op, const context& in);
// dropout.cpp
template <class T>
void run(const dropout_forward<T>& op, const context& in);
template <class T>
void run(const dropout_backward<T>& op, const context& in);
// sum.cpp
template <class T>
void run(const add<T>& op, const context& in);
template <class T>
void run(const ordered_sum<T>& op, const context& in);
void run(const square_norm<float>& op, const context& in);
void run(const square_norms<float>& op, const context& in);
// adamw.cpp
void run(const adamw<float>& op, const context& in);
void run(const adamw_pieces<float>& op, const context& in);
// fingerprint.cpp
void run(const fingerprint<float>& op, const context& in);
// move.cpp
template <class T>
void run(const cache_rows<T>& op, const context& in);
template <class T>
void run(const narrow<T>& op, const context& in);
template <class T>
void run(const widen<T>& op, const context& in);
// sample.cpp
void run(const sample_token<float>& op, const context& in);
// masked_loss.cpp
void run(const masked_loss_forward<float>& op, const context& in);
void run(const masked_loss_backward<float>& op, const context& in);

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
std::size_t scratch(const square_norms<float>& op, int threads);
std::size_t scratch(const sample_token<float>& op, int threads);

/// What Highway and oneDNN chose on this machine, for it changes bits: e.g. "AVX3, oneDNN 2.6.3
/// cpu_isa_avx512_core_bf16".
std::string instruction_set();

}  // namespace troupe::kernels::cpu
