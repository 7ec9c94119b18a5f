#include "runtime/process/huge_pages.hpp"

#include <cstdint>
#include <cstdlib>
#include <malloc.h>
#include <sys/mman.h>

namespace troupe::runtime {

// The heap grows by one piece, which is marked and freed again. Its top then stays marked, unless
// it is trimmed, or large allocations have mappings of their own.
void allocate_in_huge_pages(std::size_t bytes) {
  constexpr std::uintptr_t page = 2 << 20;
  malloc_trim(0);
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  void* const piece = std::malloc(bytes);
  const auto first = (std::uintptr_t(piece) + page - 1) / page * page;
  const auto end = (std::uintptr_t(piece) + bytes) / page * page;
  if (piece != nullptr && first < end)
    madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
  std::free(piece);
}

}  // namespace troupe::runtime
