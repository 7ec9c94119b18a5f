#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"

#include <algorithm>
#include <atomic>

namespace troupe::kernels::cpu {

namespace {

/// Two products of 32 bits a pair: the compiler's own vectors are as fast as memory.
void add_pairs(const std::uint32_t* x,
               std::int64_t begin,
               std::int64_t end,
               fingerprint_key first,
               fingerprint_key second,
               std::uint64_t* to) {
  std::uint64_t a = 0, b = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    a += fingerprint_term(x[2 * i], x[2 * i + 1], first.at(std::uint64_t(i)));
    b += fingerprint_term(x[2 * i], x[2 * i + 1], second.at(std::uint64_t(i)));
  }
  to[0] = a;
  to[1] = b;
}

/// Of one grain.
fingerprint_sum of_grain(const std::uint32_t* x, std::int64_t n, std::uint64_t key, int threads) {
  const auto first = fingerprint_key_of(key, 0), second = fingerprint_key_of(key, 1);
  std::atomic<std::uint64_t> a = 0, b = 0;
  split(threads, n / 2, elements_worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
    std::uint64_t sums[2];
    add_pairs(x, begin, end, first, second, sums);
    a += sums[0];
    b += sums[1];
  });
  if (n % 2 != 0) {
    a += fingerprint_term(x[n - 1], 0, first.at(std::uint64_t(n / 2)));
    b += fingerprint_term(x[n - 1], 0, second.at(std::uint64_t(n / 2)));
  }
  return {a, b};
}

}  // namespace

template <class T>
void run(const fingerprint<T>& op, const context& in) {
  for (std::int64_t p = 0; p < op.count; ++p) {
    const auto& all = op.pieces[p];
    const auto* const x = static_cast<const std::uint32_t*>(all.x);
    fingerprint_sum sum{0, 0};
    for (std::int64_t g = 0; g < grains_in(all.n, op.grain); ++g) {
      const auto begin = g * op.grain;
      const auto one
          = of_grain(x + begin, std::min(op.grain, all.n - begin), all.keys[g], in.threads);
      sum.add(one.high, one.low);
    }
    op.results[2 * p] = sum.high;
    op.results[2 * p + 1] = sum.low;
  }
}

template void run(const fingerprint<float>&, const context&);

}  // namespace troupe::kernels::cpu
