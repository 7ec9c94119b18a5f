// The verb: runs an operation on a backend.
//
//   run(backend::cpu, rms, context)
//
// reference: plain loops, double accumulators, every type; it judges the others.
// cpu: oneDNN and Highway, every type but double.
// cuda: the same types. A plug-in opened at run time (plugin.hpp); where it or its device is
// absent, running on it throws backend_missing with the reason. What lies in host memory whatever
// the backend (kernels/op/registry.hpp) runs on the cpu backend there too.
//
// Which operations there are, and in which types: kernels/op/registry.hpp. This header knows none.

#pragma once

#include "kernels/op/context.hpp"
#include "kernels/op/registry.hpp"

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
void run(backend where, const operation& op, const context& in);

/// Scratch that `run` needs for this operation; 0 for most.
std::size_t scratch(backend where, const operation& op, int threads);

/// The instruction set that the cpu backend chose on this machine, e.g. "AVX3_ZEN4": part of a
/// run's identity, because it changes bits.
std::string instruction_set();

}  // namespace troupe::kernels
