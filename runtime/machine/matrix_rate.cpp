#include "runtime/machine/matrix_rate.hpp"

#include "kernels/op/linear.hpp"
#include "runtime/core/random.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

namespace troupe::runtime {
namespace {

constexpr auto long_enough = std::chrono::milliseconds(150);

/// FLOP/s of the fastest product, because other processes only slow it down.
template <class T>
double rate_of(stream& stream, std::int64_t side, std::barrier<>& start) {
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
  stream.run(product);  // the first run selects the kernel
  start.arrive_and_wait();
  using clock = std::chrono::steady_clock;
  std::chrono::duration<double> fastest = std::chrono::hours(1);
  const auto until = clock::now() + long_enough;
  for (auto began = clock::now(), ended = began; began < until; began = ended) {
    stream.run(product);
    ended = clock::now();
    fastest = std::min<std::chrono::duration<double>>(fastest, ended - began);
  }
  return double(product_flops(product)) / fastest.count();
}

template <class T>
tensor random_square(stream& stream, std::int64_t side, std::uint64_t key) {
  std::vector<T> out(std::size_t(side * side));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = T(float(uniform(key, i) - 0.5));
  return uploaded(stream, out, {side, side});
}

/// Time of the fastest of ten products, in milliseconds.
template <class T>
double product_ms(stream& stream, std::int64_t side) {
  const auto x = random_square<T>(stream, side, 1), weight = random_square<T>(stream, side, 2);
  auto y = tensor::empty<T>(stream, {side, side});
  const kernels::linear_forward<T> product{.y = y.template data<T>(),
                                           .z = nullptr,
                                           .x = x.template data<T>(),
                                           .weight = weight.template data<T>(),
                                           .bias = nullptr,
                                           .R = side,
                                           .N = side,
                                           .K = side};
  stream.run(product);  // the first run selects the kernel
  std::vector<moment> points{stream.now()};
  for (int i = 0; i < 10; ++i) {
    stream.run(product);
    points.push_back(stream.now());
  }
  stream.finish();
  std::int64_t fastest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 1; i < points.size(); ++i)
    fastest = std::min(fastest, stream.ns_of(points[i]) - stream.ns_of(points[i - 1]));
  return double(std::max<std::int64_t>(fastest, 1)) / 1e6;
}

}  // namespace

double measured_device_rate(int device, bool in_bf16) {
  stream stream(kernels::backend::cuda, 1, {}, device);
  constexpr double long_enough_ms = 1;
  for (std::int64_t side = 64;; side *= 2) {
    const auto ms
        = in_bf16 ? product_ms<kernels::bf16>(stream, side) : product_ms<float>(stream, side);
    if (ms >= long_enough_ms || side == 8192)
      return 2.0 * double(side) * double(side) * double(side) / (ms / 1e3);
  }
}

double measured_matrix_rate(kernels::backend where, int workers, int threads, bool in_bf16) {
  // About 1 ms on one fast core; the reference kernels need as long for 64.
  const std::int64_t side = where == kernels::backend::reference ? 64 : 512;
  std::vector<double> rates(std::size_t(workers), 0.0);
  std::barrier<> start(workers);
  std::vector<std::exception_ptr> failures(rates.size());
  std::vector<std::jthread> lanes;
  for (std::size_t w = 0; w < rates.size(); ++w)
    try {
      lanes.push_back(start_thread("matrix rate", [&, w] {
        try {
          stream stream(where, threads, {});
          rates[w] = in_bf16 ? rate_of<kernels::bf16>(stream, side, start)
                             : rate_of<float>(stream, side, start);
        } catch (...) {
          failures[w] = std::current_exception();
          start.arrive_and_drop();
        }
      }));
    } catch (...) {
      failures[w] = std::current_exception();
      start.arrive_and_drop();
    }
  lanes.clear();
  for (const auto& failure : failures)
    if (failure)
      std::rethrow_exception(failure);
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  const double share = std::min(1.0, cores / (double(workers) * threads));  // lanes share cores
  return share * std::reduce(rates.begin(), rates.end());
}

}  // namespace troupe::runtime
