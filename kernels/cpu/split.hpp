// Divides work among the threads of a lane and checks their scratch memory.

#pragma once

#include "kernels/op/context.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace troupe::kernels::cpu {

/// Elements below which waking another thread costs more than it saves (a few microseconds).
constexpr std::int64_t elements_worth_a_thread = 16384;

/// Minimum rows of C elements per thread.
constexpr std::int64_t rows_worth_a_thread(std::int64_t C) {
  return std::max<std::int64_t>(1, elements_worth_a_thread / std::max<std::int64_t>(1, C));
}

/// Calls `part(begin, end)` in parallel for at most `threads` contiguous ranges that cover [0, n).
/// Ranges begin at multiples of `grain`. Fewer than two grains run on the calling thread. `part`
/// must not throw.
template <class Part>
void split(int threads, std::int64_t n, std::int64_t grain, const Part& part) {
  const std::int64_t grains = (n + grain - 1) / grain;
  const std::int64_t parts = std::min<std::int64_t>(threads, grains);
  if (parts <= 1) {
    if (n > 0)
      part(std::int64_t{0}, n);
    return;
  }
#pragma omp parallel for num_threads(int(parts)) schedule(static)
  for (std::int64_t p = 0; p < parts; ++p)
    part(grains * p / parts * grain, std::min(n, grains * (p + 1) / parts * grain));
}

/// The workspace as an array of T. Throws std::logic_error if it is too small.
template <class T>
T* scratch_array(const context& in, std::size_t bytes) {
  if (in.workspace.size() < bytes)
    throw std::logic_error("workspace of " + std::to_string(in.workspace.size())
                           + " bytes is too small: the operation declared "
                           + std::to_string(bytes));
  return reinterpret_cast<T*>(in.workspace.data());
}

}  // namespace troupe::kernels::cpu
