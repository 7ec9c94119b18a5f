// The OpenMP team of a thread, for those who must have all of it.
//
// Loops of ours (split.hpp, attention, packed products, products in tiles) divide their work by the
// number of threads that was configured, and those that come take one part after another: they are
// right, with the same bits, however few come. oneDNN divides by the number that OpenMP promises
// and computes only the parts of those who come.

#pragma once

namespace troupe::kernels::cpu {

/// As long as this stands, parallel regions that the calling thread begins have exactly `threads`
/// threads, whatever OMP_NUM_THREADS, OMP_DYNAMIC and OMP_MAX_ACTIVE_LEVELS say (TEAM-1). Of these
/// settings, which OpenMP keeps for each thread, the first is given back at the end.
class team {
 public:
  /// Throws std::system_error where OpenMP gives fewer nevertheless: by OMP_THREAD_LIMIT, which
  /// `troupe` itself clears at its start, or within a parallel region.
  explicit team(int threads);
  ~team();
  team(const team&) = delete;
  team& operator=(const team&) = delete;

 private:
  int before_;
};

}  // namespace troupe::kernels::cpu
