#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/targets.hpp"

#include <hwy/highway.h>
#include <hwy/targets.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

namespace troupe::kernels::cpu {

std::string instruction_set() {
  const std::int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  const dnnl_version_t& dnnl = *dnnl_version();
  return hwy::TargetName(usable & -usable)  // lower bits are better targets
         + (" by Highway " + std::to_string(HWY_MAJOR)) + '.' + std::to_string(HWY_MINOR) + '.'
         + std::to_string(HWY_PATCH) + (", oneDNN " + std::to_string(dnnl.major)) + '.'
         + std::to_string(dnnl.minor) + '.' + std::to_string(dnnl.patch) + ' '
         + dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
}

}  // namespace troupe::kernels::cpu
