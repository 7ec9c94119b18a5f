#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/targets.hpp"

#include <hwy/targets.h>

namespace troupe::kernels::cpu {

std::string instruction_set() {
  const std::int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(usable & -usable);  // a lower bit is a better target
}

}  // namespace troupe::kernels::cpu
