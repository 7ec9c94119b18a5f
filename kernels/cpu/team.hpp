// Sets and verifies the size of the calling thread's OpenMP team, as oneDNN requires.
//
// Our own loops (split.hpp, attention, packed products, tile products) divide work by the
// configured thread count, and each thread takes one part after another. They give the same bits
// with fewer threads. oneDNN divides work by the promised team size; if fewer threads run, parts
// stay uncomputed.

#pragma once

namespace troupe::kernels::cpu {

/// While alive, parallel regions of the calling thread have exactly `threads` threads, regardless
/// of OMP_NUM_THREADS, OMP_DYNAMIC and OMP_MAX_ACTIVE_LEVELS (TEAM-1). The destructor restores only
/// the first of these per-thread settings.
class team {
 public:
  /// Throws std::system_error if OpenMP still gives fewer threads: because of OMP_THREAD_LIMIT,
  /// which `troupe` clears at startup, or inside a parallel region.
  explicit team(int threads);
  ~team();
  team(const team&) = delete;
  team& operator=(const team&) = delete;

 private:
  int before_;
};

}  // namespace troupe::kernels::cpu
