// Memory in huge pages (madvise(2), MADV_HUGEPAGE) for work that touches gigabytes in no order.

#pragma once

#include <cstddef>

namespace troupe::runtime {

/// Gives unused memory back to the system. Then the next `bytes` that the calling process's first
/// thread allocates come from huge pages, as far as the system has them. They cost nothing until
/// they are used. Afterwards freed memory stays with the process until the next call.
void allocate_in_huge_pages(std::size_t bytes);

}  // namespace troupe::runtime
