// The findings of `troupe doctor`: missing parts and notes, each with the command that fixes it.

#pragma once

#include "runtime/machine/accelerators.hpp"
#include "runtime/machine/machine.hpp"
#include "runtime/machine/measure.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::command {

struct machine_facts {
  runtime::processor_facts processor;
  runtime::memory_facts memory;
  runtime::disk_facts disk;
  runtime::limit_facts limits;
  runtime::gpu_facts gpus;
  runtime::accelerator_facts accelerators;
  runtime::transport_facts transports;
  std::optional<runtime::measured_rates> rates;
  std::string launcher = {};  ///< what the launcher of a cluster says; empty: there is none
};

enum class weight {
  note,     ///< training works
  missing,  ///< training does not work
};

struct finding {
  weight severity = weight::note;
  std::string about;  ///< "memory"
  std::string text;
  std::string remedy;  ///< advice, if possible a command; may be empty
};

/// True with any sign of an NVIDIA GPU: a device, a driver, or a CUDA plug-in that failed.
bool may_have_gpu(const machine_facts& x);

/// In the order of the facts.
std::vector<finding> findings_of(const machine_facts& x);

/// True if no finding is `missing`.
bool can_train(const std::vector<finding>& all);

}  // namespace troupe::command
