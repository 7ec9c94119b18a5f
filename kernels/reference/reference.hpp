// The judge: every operation in plain loops, sums in double, one thread. No cleverness.

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

namespace troupe::kernels::reference {

// Defined for T = float and double, and for bf16 and f16 where the operation exists in it.
template <class T>
void run(const linear_forward<T>& op);
template <class T>
void run(const linear_backward_input<T>& op);
template <class T>
void run(const linear_backward_weight<T>& op);
template <class T>
void run(const bias_backward<T>& op);
template <class T>
void run(const attention_forward<T>& op);
template <class T>
void run(const attention_backward<T>& op);
template <class T>
void run(const norm_forward<T>& op);
template <class T>
void run(const norm_backward_input<T>& op);
template <class T>
void run(const norm_backward_weight<T>& op);
template <class T>
void run(const head_norm_forward<T>& op);
template <class T>
void run(const head_norm_backward_input<T>& op);
template <class T>
void run(const head_norm_backward_weight<T>& op);
template <class T>
void run(const activation_forward<T>& op);
template <class T>
void run(const activation_backward<T>& op);
template <class T>
void run(const rope<T>& op);
template <class T>
void run(const embedding_forward<T>& op);
template <class T>
void run(const embedding_backward<T>& op);
template <class T>
void run(const cross_entropy_forward<T>& op);
template <class T>
void run(const cross_entropy_backward<T>& op);
template <class T>
void run(const cross_entropy_merge<T>& op);
template <class T>
void run(const dropout_forward<T>& op);
template <class T>
void run(const dropout_backward<T>& op);
template <class T>
void run(const add<T>& op);
template <class T>
void run(const ordered_sum<T>& op);
template <class T>
void run(const square_norm<T>& op);
template <class T>
void run(const adamw<T>& op);
template <class T>
void run(const sample_token<T>& op);
template <class T>
void run(const square_norms<T>& op);
template <class T>
void run(const adamw_pieces<T>& op);
template <class T>
void run(const fingerprint<T>& op);
template <class T>
void run(const cache_rows<T>& op);
template <class T>
void run(const narrow<T>& op);  ///< narrow types alone
template <class T>
void run(const widen<T>& op);
template <class T>
void run(const masked_loss_forward<T>& op);
template <class T>
void run(const masked_loss_backward<T>& op);

}  // namespace troupe::kernels::reference
