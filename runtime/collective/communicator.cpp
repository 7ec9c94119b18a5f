#include "runtime/collective/communicator.hpp"

#include "runtime/core/error.hpp"

namespace troupe::runtime {

std::vector<std::int64_t> equal_ends(std::int64_t n, int size) {
  ensure(n % size == 0, "COLLECTIVE-2: equal cuts have no remainder");
  std::vector<std::int64_t> out;
  for (int r = 1; r <= size; ++r)
    out.push_back(n / size * r);
  return out;
}

}  // namespace troupe::runtime
