#include "kernels/cudnn/attention_faults.hpp"

namespace troupe::kernels::cudnn {

namespace {

constexpr std::int64_t widest_tile = 128;

}  // namespace

bool trusted(const attention_shape& a, bool backward) {
  const bool one_of_any = a.longest_query < 2 || a.longest_key < 2;
  const bool closed = a.causal && a.longest_query <= a.longest_key;
  return !one_of_any && (!backward || closed || a.longest_key % widest_tile == 0);
}

}  // namespace troupe::kernels::cudnn
