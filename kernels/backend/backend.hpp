// The verb: runs an operation on a backend.
//
//   run(backend::cpu, rms, context)
//
// reference: plain loops, double accumulators, every T (float, double, bf16, f16); it judges the
// others.
// cpu: oneDNN and Highway, float, bf16 and f16. Which operations exist in those two: every_op.hpp.
// cuda: a plug-in opened at run time (plugin.hpp); where it or its device is absent, running on it
// throws backend_missing with the reason. sample_token, whose arrays are always host memory, runs
// on the cpu backend there too.

#pragma once

#include "kernels/op/activation.hpp"
#include "kernels/op/adamw.hpp"
#include "kernels/op/attention.hpp"
#include "kernels/op/bias.hpp"
#include "kernels/op/cast.hpp"
#include "kernels/op/context.hpp"
#include "kernels/op/count.hpp"
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

#include <stdexcept>
#include <string>

namespace troupe::kernels {

enum class backend : std::uint8_t { reference, cpu, cuda };

/// The user asked for a backend that this build or machine does not have.
class backend_missing : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Returns when the operation has finished (reference, cpu) or has been enqueued (cuda). Double on
/// another backend than the reference is a broken promise: std::logic_error (BACKEND-1).
template <class Op>
void run(backend where, const Op& op, const context& in);

/// Scratch that `run` needs for this operation; 0 for most.
template <class Op>
std::size_t scratch(backend where, const Op& op, int threads);

/// The instruction set that the cpu backend chose on this machine, e.g. "AVX3_ZEN4": part of a
/// run's identity, because it changes bits.
std::string instruction_set();

}  // namespace troupe::kernels
