// Runs an operation on a backend:
//
//   run(backend::cpu, rms, context)
//
// * reference: plain loops with double accumulators, in every type. Tests compare the others with
// it.
// * cpu: oneDNN and Highway, in every type but double.
// * cuda: the same types. A plug-in opened at run time (plugin.hpp). Throws backend_missing with
//   the reason if the plug-in or its device is absent. Operations with host memory
//   (kernels/op/registry.hpp) run on the cpu backend.
//
// kernels/op/registry.hpp lists the operations and their types. This header depends on none of
// them.

#pragma once

#include "kernels/op/context.hpp"
#include "kernels/op/registry.hpp"

#include <stdexcept>
#include <string>

namespace troupe::kernels {

enum class backend : std::uint8_t { reference, cpu, cuda };

/// The requested backend is missing in this build or on this machine.
class backend_missing : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Returns when the operation has finished (reference, cpu) or is enqueued (cuda). Throws
/// std::logic_error for double on a backend other than the reference (BACKEND-1).
void run(backend where, const operation& op, const context& in);

/// Scratch bytes that `run` needs; 0 for most operations.
std::size_t scratch(backend where, const operation& op, int threads);

/// The instruction set that the cpu backend uses here, e.g. "AVX3_ZEN4". Part of a run's identity,
/// because it changes bits.
std::string instruction_set();

}  // namespace troupe::kernels
