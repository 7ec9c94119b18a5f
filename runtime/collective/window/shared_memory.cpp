#include "runtime/collective/window/shared_memory.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

namespace troupe::runtime {

namespace {

constexpr std::size_t large_page = std::size_t{2} << 20;

/// Large pages require equal alignment of file offset and address.
void* map_file(int file, std::size_t bytes, int protection) {
  if (bytes < large_page)
    return ::mmap(nullptr, bytes, protection, MAP_SHARED, file, 0);
  const auto reserved = bytes + large_page;
  void* const at
      = ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return at;
  auto* const begin = static_cast<std::byte*>(at);
  const auto before = (large_page - reinterpret_cast<std::uintptr_t>(at) % large_page) % large_page;
  void* const out = ::mmap(begin + before, bytes, protection, MAP_SHARED | MAP_FIXED, file, 0);
  const int why = errno;
  if (out == MAP_FAILED) {
    ::munmap(at, reserved);
  } else {
    if (before > 0)
      ::munmap(begin, before);
    ::munmap(begin + before + bytes, large_page - before);
  }
  errno = why;
  return out;
}

/// RLIMIT_FSIZE applies to memory files too, and exceeding it raises a signal.
bool exceeds_limit(std::size_t bytes) {
  rlimit limit = {};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur;
}

/// Best effort; otherwise pages stay small. Advice alone usually gives files no large pages
/// (transparent_hugepage/shmem_enabled), but MADV_COLLAPSE does. The rest after the last whole
/// large page stays in small pages, so no memory beyond `bytes` is used.
void make_pages_large(std::byte* at, std::size_t bytes) {
  if (bytes < large_page)
    return;
  ::madvise(at, bytes, MADV_HUGEPAGE);  // the whole range: otherwise the kernel splits the mapping
  bytes -= bytes % large_page;
  for (std::size_t i = 0; i < bytes; i += large_page)  // only populated memory collapses
    *const_cast<volatile std::byte*>(at + i) = std::byte{0};
  ::madvise(at, bytes, MADV_COLLAPSE);
}

}  // namespace

struct shared_memory::state {
  struct block {
    std::size_t bytes;
    int descriptor;
    std::uint64_t inode;
  };
  std::mutex mutex;
  std::map<const std::byte*, block> all;

  void drop(std::byte* at) {
    block gone;
    {
      const std::lock_guard lock(mutex);
      gone = all.at(at);
      all.erase(at);
    }
    ::munmap(at, gone.bytes);
    ::close(gone.descriptor);
  }
};

shared_memory::shared_memory() : state_(std::make_shared<state>()) {}

memory_block shared_memory::allocate(std::size_t bytes) {
  const auto page = std::size_t(::sysconf(_SC_PAGESIZE));
  const auto whole = std::max<std::size_t>((bytes + page - 1) / page, 1) * page;
  const int file = ::memfd_create("troupe arrays", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  void* at = MAP_FAILED;
  struct stat what = {};
  const bool fits = !exceeds_limit(whole);
  if (!fits)
    errno = EFBIG;
  if (file >= 0 && fits && ::ftruncate(file, off_t(whole)) == 0 && ::fstat(file, &what) == 0
      && ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    at = map_file(file, whole, PROT_READ | PROT_WRITE);
  if (at == MAP_FAILED) {
    const int why = errno;
    if (file >= 0)
      ::close(file);
    throw io_error(
        "cannot create {} bytes of memory that other processes map: {}; raise the limits of "
        "descriptors (ulimit -n), file sizes (ulimit -f) and memory",
        whole,
        system_message(why));
  }
  auto* const begin = static_cast<std::byte*>(at);
  make_pages_large(begin, whole);
  {
    const std::lock_guard lock(state_->mutex);
    state_->all[begin] = {whole, file, what.st_ino};
  }
  return {begin, [state = state_](std::byte* x) { state->drop(x); }};
}

std::optional<shared_place> shared_memory::find(const void* at, std::int64_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(at);
  const std::lock_guard lock(state_->mutex);
  auto next = state_->all.upper_bound(begin);
  if (next == state_->all.begin())
    return std::nullopt;
  const auto& [first, of] = *--next;
  const auto offset = begin - first;
  if (offset + bytes > std::int64_t(of.bytes))
    return std::nullopt;
  return shared_place{of.descriptor, of.inode, offset};
}

// Requires a seal against shrinking: a reader of a shrunk block would get SIGBUS.
std::shared_ptr<const std::byte> map_shared(std::int64_t pid,
                                            const shared_place& of,
                                            std::int64_t bytes) {
  const auto where = fmt::format("/proc/{}/fd/{}", pid, of.descriptor);
  const int file = ::open(where.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return nullptr;
  struct stat what = {};
  void* at = MAP_FAILED;
  const bool fits = ::fstat(file, &what) == 0 && what.st_ino == of.inode && of.offset >= 0
                    && bytes >= 0 && bytes <= what.st_size - of.offset
                    && (::fcntl(file, F_GET_SEALS) & F_SEAL_SHRINK) != 0;
  const auto whole = std::size_t(what.st_size);
  if (fits)
    at = map_file(file, whole, PROT_READ);
  ::close(file);
  if (at == MAP_FAILED)
    return nullptr;
  if (whole >= large_page)
    ::madvise(at, whole, MADV_HUGEPAGE);
  const auto* const begin = static_cast<const std::byte*>(at);
  return {begin, [whole](const std::byte* x) { ::munmap(const_cast<std::byte*>(x), whole); }};
}

}  // namespace troupe::runtime
