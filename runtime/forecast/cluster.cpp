#include "runtime/forecast/cluster.hpp"

#include <algorithm>
#include <map>

namespace troupe::runtime {

double device_outline::peak(dtype of) const {
  return of == dtype::f32 ? f32 : of == dtype::f16 ? f16.value_or(bf16) : bf16;
}

group_span span_of(const std::vector<int>& ranks, int devices_per_host) {
  std::map<int, int> members;
  for (const int rank : ranks)
    ++members[rank / devices_per_host];
  group_span out{.size = int(ranks.size()), .hosts = int(members.size())};
  for (const auto& [host, count] : members)
    out.local = std::max(out.local, count);
  return out;
}

}  // namespace troupe::runtime
