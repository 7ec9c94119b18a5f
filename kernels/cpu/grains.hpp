// Distributes the grains (kernels/op/grain.hpp) of many arrays over the threads of a lane.

#pragma once

#include "kernels/cpu/split.hpp"
#include "kernels/op/fingerprint.hpp"

#include <mutex>

namespace troupe::kernels::cpu {

/// One grain: elements [begin, begin + n) of a piece.
struct grain_of_piece {
  std::int64_t piece, before;  ///< before: number of grains in earlier pieces
  std::int64_t number;         ///< index of the grain in its piece
  std::int64_t begin, n;
};

/// Calls part(grain_of_piece) for every grain of every piece. Each call runs on one thread; the
/// grains of a thread ascend. `part` must not throw.
template <class Op, class Part>
void split_grains(int threads, const Op& op, const Part& part) {
  const auto worth
      = std::clamp<std::int64_t>(elements_of(op) / elements_worth_a_thread, 1, threads);
  split(int(worth), grains_of(op), 1, [&](std::int64_t begin, std::int64_t end) {
    grain_of_piece at{};
    for (std::int64_t g = begin; g < end; ++g) {
      while (g - at.before >= grains_in(op.pieces[at.piece].n, op.grain)) {
        at.before += grains_in(op.pieces[at.piece].n, op.grain);
        ++at.piece;
      }
      at.number = g - at.before;
      at.begin = at.number * op.grain;
      at.n = std::min(op.grain, op.pieces[at.piece].n - at.begin);
      part(at);
    }
  });
}

/// Fingerprints of arrays. Threads add grains in any order; integer sums do not depend on it.
class fingerprint_results {
 public:
  /// Zeroes `to` (count, 2).
  fingerprint_results(std::uint64_t* to, std::int64_t count) : to_(to) {
    std::fill_n(to, 2 * count, 0);
  }

  void add(std::int64_t array, const std::uint64_t (&of_grain)[2]) {
    const std::lock_guard lock(mutex_);
    auto* const at = to_ + 2 * array;
    fingerprint_sum sum{at[0], at[1]};
    sum.add(of_grain[0], of_grain[1]);
    at[0] = sum.high;
    at[1] = sum.low;
  }

 private:
  std::mutex mutex_;
  std::uint64_t* to_;
};

}  // namespace troupe::kernels::cpu
