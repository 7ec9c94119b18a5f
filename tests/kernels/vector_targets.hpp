// Kernels of the cpu backend with another instruction set of Highway's than this machine's best.

#pragma once

#include <cstdint>
#include <hwy/targets.h>
#include <vector>

namespace troupe::tests {

/// Those that kernels/cpu is compiled for (its targets.hpp) and this processor has.
inline std::vector<std::int64_t> vector_targets() {
  std::vector<std::int64_t> out;
  for (const std::int64_t one : {HWY_SSE4, HWY_AVX2, HWY_AVX3})
    if ((hwy::SupportedTargets() & one) != 0)
      out.push_back(one);
  return out;
}

/// Until it ends, kernels of this process use at best this instruction set; 0: the machine's best.
class vector_target {
 public:
  explicit vector_target(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~vector_target() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  vector_target(const vector_target&) = delete;
  vector_target& operator=(const vector_target&) = delete;
};

}  // namespace troupe::tests
