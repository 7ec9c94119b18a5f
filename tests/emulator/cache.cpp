#include "tests/emulator/cache.hpp"

#include "tests/emulator/settings.hpp"

#include <map>
#include <mutex>

namespace troupe::emulator {
namespace {

struct cache {
  std::mutex mutex;
  std::size_t passed = 0;                        ///< bytes so far
  std::map<const void*, std::size_t> last_seen;  ///< by factor: value of `passed` at its last use
};

// Never destroyed: streams still work while the process ends.
cache& one() {
  static auto* const is = new cache;
  return *is;
}

}  // namespace

void write_through_cache(std::size_t bytes) {
  const std::lock_guard lock(one().mutex);
  one().passed += bytes;
}

void count_product(const product& which) {
  const std::lock_guard lock(one().mutex);
  bool warm = false;
  for (const void* const factor : {which.a_data, which.b_data}) {
    const auto before = one().last_seen.find(factor);
    warm = warm || (before != one().last_seen.end() && one().passed - before->second < cache_bytes);
    one().last_seen[factor] = one().passed;
  }
  ++counted().products;
  counted().warm_products += warm ? 1 : 0;
}

}  // namespace troupe::emulator
