#include "kernels/cpu/team.hpp"

#include <omp.h>
#include <string>
#include <system_error>

namespace troupe::kernels::cpu {
namespace {

int given(int threads) {
  int out = 1;
#pragma omp parallel num_threads(threads)
#pragma omp master
  out = omp_get_num_threads();
  return out;
}

// The limits checked here are fixed for the life of the process, so each thread checks a team size
// only if it exceeds all earlier ones.
void require(int threads) {
  static thread_local int had = 1;
  const bool within = omp_in_parallel() != 0;
  if (threads <= had && !within)
    return;
  const int found = given(threads);
  if (found < threads)
    throw std::system_error(
        std::make_error_code(std::errc::resource_unavailable_try_again),
        "a matrix product needs " + std::to_string(threads) + " threads and OpenMP gives "
            + std::to_string(found)
            + (within ? ", because it runs inside a parallel region"
                      : "; unset OMP_THREAD_LIMIT, or raise it, or use fewer threads per worker"));
  had = threads;
}

}  // namespace

team::team(int threads) : before_(omp_get_max_threads()) {
  if (threads > 1) {
    if (omp_get_dynamic() != 0)
      omp_set_dynamic(0);
    if (omp_get_max_active_levels() < 1)
      omp_set_max_active_levels(1);
    require(threads);
  }
  omp_set_num_threads(threads);
}

team::~team() {
  omp_set_num_threads(before_);
}

}  // namespace troupe::kernels::cpu
