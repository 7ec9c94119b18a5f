// What `troupe doctor` makes of a machine: what is missing, what is worth knowing, and the command
// that mends it.

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
};

enum class weight {
  note,     ///< worth knowing; one can train
  missing,  ///< one cannot train
};

struct finding {
  weight severity = weight::note;
  std::string about;   ///< "memory"
  std::string text;    ///< what is so
  std::string remedy;  ///< what to do, a command where there is one; empty: nothing is to be done
};

/// Whether anything says that there is an NVIDIA GPU, or was to be.
bool may_have_gpu(const machine_facts& x);

/// In the order of the facts.
std::vector<finding> findings_of(const machine_facts& x);

/// Whether none of them is missing.
bool can_train(const std::vector<finding>& all);

}  // namespace troupe::command
