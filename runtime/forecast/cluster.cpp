#include "runtime/forecast/cluster.hpp"

#include <algorithm>

namespace troupe::runtime {

double device_outline::peak(dtype of) const {
  return of == dtype::f32 ? f32 : of == dtype::f16 ? f16.value_or(bf16) : bf16;
}

group_span span_of(const std::vector<int>& ranks, int devices_per_host) {
  group_span out{.size = int(ranks.size()), .hosts = 0, .local = 0};
  int host = -1, members = 0;
  for (const int rank : ranks) {
    const bool is_new = rank / devices_per_host != host;
    host = rank / devices_per_host;
    out.hosts += is_new ? 1 : 0;
    members = is_new ? 1 : members + 1;
    out.local = std::max(out.local, members);
  }
  return out;
}

}  // namespace troupe::runtime
