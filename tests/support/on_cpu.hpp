// Runs an operation on the cpu backend with exactly the scratch memory that it declares, filled
// with NaN. A read before a write shows in the result. A write beyond the end ends the process,
// also in instructions that no sanitizer checks.

#pragma once

#include "kernels/backend/backend.hpp"

#include <cstddef>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace troupe::tests {

/// Memory full of NaN that begins at a cache line and ends at an inaccessible page.
class guarded_memory {
 public:
  explicit guarded_memory(std::size_t bytes)
      : pages_(page() + (bytes + page() - 1) / page() * page()) {
    void* const all
        = ::mmap(nullptr, pages_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
      throw std::bad_alloc();
    all_ = static_cast<std::byte*>(all);
    std::byte* const guard = all_ + pages_ - page();
    ::mprotect(guard, page(), PROT_NONE);
    begin_ = guard - (bytes + 63) / 64 * 64;
    std::memset(begin_, 0xFF, std::size_t(guard - begin_));
  }
  ~guarded_memory() { ::munmap(all_, pages_); }
  guarded_memory(const guarded_memory&) = delete;
  guarded_memory& operator=(const guarded_memory&) = delete;

  std::byte* begin() const { return begin_; }

 private:
  static std::size_t page() { return std::size_t(::sysconf(_SC_PAGESIZE)); }

  std::size_t pages_;
  std::byte *all_, *begin_;
};

template <class Op>
void on_cpu(const Op& op, int threads = 1) {
  const std::size_t bytes = kernels::scratch(kernels::backend::cpu, op, threads);
  const guarded_memory workspace(bytes);
  kernels::run(kernels::backend::cpu, op, {threads, {workspace.begin(), bytes}});
}

}  // namespace troupe::tests
