// What to say of a run that does not fit into this machine.

#pragma once

#include "runtime/machine/machine.hpp"
#include "runtime/trainer/job.hpp"

#include <cstdint>
#include <string>

namespace troupe::command {

/// What all workers of the job need together (`need`, in bytes), what the machine has, and the
/// flags that would change it: those only that this job has not set already. A line without its
/// end.
std::string memory_advice(const runtime::training_job& job,
                          std::int64_t need,
                          const runtime::memory_facts& machine);

}  // namespace troupe::command
