#include "runtime/collective/ordered_sum.hpp"

#include "kernels/op/sum.hpp"
#include "runtime/core/error.hpp"

#include <vector>

namespace troupe::runtime {

namespace {

template <class T>
void sum(stream& stream, void* to, std::span<const void* const> from, std::int64_t n) {
  std::vector<const T*> sources;
  for (const auto* x : from)
    sources.push_back(static_cast<const T*>(x));
  stream.run(kernels::ordered_sum<T>{
      static_cast<T*>(to), sources.data(), std::int64_t(sources.size()), n});
}

}  // namespace

void require_summable(dtype type) {
  ensure(type == dtype::f32 || type == dtype::bf16 || type == dtype::f16,
         "COLLECTIVE-3: sums take f32, bf16 and f16");
}

void ordered_sum(
    stream& stream, dtype type, void* to, std::span<const void* const> sources, std::int64_t n) {
  require_summable(type);
  if (n > 0)
    with_element(type, [&]<class T>(T) { sum<T>(stream, to, sources, n); });
}

}  // namespace troupe::runtime
