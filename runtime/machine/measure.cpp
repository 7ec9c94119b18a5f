#include "runtime/machine/measure.hpp"

#include "kernels/op/bf16.hpp"
#include "kernels/op/linear.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/device/stream.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace troupe::runtime {
namespace {

using clock = std::chrono::steady_clock;

template <class Work>
double best_seconds(Work&& work) {
  double best = 1e30, all = 0;
  for (int i = 0; i < 3 || (all < 0.8 && i < 10000); ++i) {
    const auto began = clock::now();
    work();
    const auto took = std::chrono::duration<double>(clock::now() - began).count();
    best = std::min(best, took);
    all += took;
  }
  return best;
}

/// A square product that fits into the caches, so that arithmetic is the bottleneck and not memory.
template <class T>
double product_rate(int threads) {
  constexpr std::int64_t size = 768;
  stream stream(kernels::backend::cpu, threads, {});
  std::vector<T> x(size * size, T(0.5F)), weight(size * size, T(0.25F)), y(size * size);
  const kernels::linear_forward<T> op{.y = y.data(),
                                      .z = nullptr,
                                      .x = x.data(),
                                      .weight = weight.data(),
                                      .bias = nullptr,
                                      .R = size,
                                      .N = size,
                                      .K = size};
  return 2.0 * size * size * size / best_seconds([&] { stream.run(op); });
}

/// Each thread copies its part of an array that is larger than the caches.
double copy_rate(int threads) {
  constexpr std::size_t bytes = std::size_t{256} << 20;
  const auto part = bytes / std::size_t(threads);
  std::vector<char> from(bytes, 1), to(bytes, 2);
  const auto seconds = best_seconds([&] {
    std::vector<std::jthread> team;
    team.reserve(std::size_t(threads));
    for (int t = 0; t < threads; ++t)
      team.push_back(start_thread("copies", [&, at = std::size_t(t) * part] {
        std::memcpy(to.data() + at, from.data() + at, part);
      }));
  });
  return 2.0 * double(part) * threads / seconds;
}

}  // namespace

measured_rates measure_rates(int threads) {
  return {product_rate<float>(threads), product_rate<kernels::bf16>(threads), copy_rate(threads)};
}

}  // namespace troupe::runtime
