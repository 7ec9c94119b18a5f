// Runs cpu kernels with other Highway instruction sets than this machine's best.

#pragma once

#include <cstdint>
#include <hwy/targets.h>
#include <vector>

namespace troupe::tests {

/// The instruction sets of kernels/cpu/targets.hpp that this processor has.
inline std::vector<std::int64_t> vector_targets() {
  std::vector<std::int64_t> out;
  for (const std::int64_t one : {HWY_SSE4, HWY_AVX2, HWY_AVX3})
    if ((hwy::SupportedTargets() & one) != 0)
      out.push_back(one);
  return out;
}

/// While alive, kernels of this process use at most this instruction set; 0: the machine's best.
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
