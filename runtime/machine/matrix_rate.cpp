#include "runtime/machine/matrix_rate.hpp"

#include "kernels/op/linear.hpp"
#include "runtime/device/stream.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace troupe::runtime {
namespace {

constexpr auto long_enough = std::chrono::milliseconds(150);

/// Of the fastest product: what others take of the machine meanwhile is not its rate.
template <class T>
double rate_of(stream& on, std::int64_t side, std::barrier<>& start) {
  const auto size = std::size_t(side * side);
  std::vector<T> x(size, T(0.5F)), weight(size, T(0.25F)), y(size);
  const kernels::linear_forward<T> product{.y = y.data(),
                                           .z = nullptr,
                                           .x = x.data(),
                                           .weight = weight.data(),
                                           .bias = nullptr,
                                           .R = side,
                                           .N = side,
                                           .K = side};
  on.run(product);  // the first one chooses its code
  start.arrive_and_wait();
  using clock = std::chrono::steady_clock;
  std::chrono::duration<double> fastest = std::chrono::hours(1);
  const auto until = clock::now() + long_enough;
  for (auto began = clock::now(), ended = began; began < until; began = ended) {
    on.run(product);
    ended = clock::now();
    fastest = std::min<std::chrono::duration<double>>(fastest, ended - began);
  }
  return double(product_flops(product)) / fastest.count();
}

}  // namespace

double measured_matrix_rate(kernels::backend where, int workers, int threads, bool in_bf16) {
  // A millisecond of one fast core; plain loops take as long for much less.
  const std::int64_t side = where == kernels::backend::reference ? 64 : 512;
  std::vector<double> rates(std::size_t(workers), 0.0);
  std::barrier<> start(workers);
  std::vector<std::jthread> lanes;
  for (auto& rate : rates)
    lanes.emplace_back([&, out = &rate] {
      stream on(where, threads, {});
      *out = in_bf16 ? rate_of<kernels::bf16>(on, side, start) : rate_of<float>(on, side, start);
    });
  lanes.clear();
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  const double share = std::min(1.0, cores / (double(workers) * threads));  // when they take turns
  return share * std::reduce(rates.begin(), rates.end());
}

}  // namespace troupe::runtime
