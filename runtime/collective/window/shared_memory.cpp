#include "runtime/collective/window/shared_memory.hpp"

#include "runtime/core/error.hpp"

#include <cerrno>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe::runtime {

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
  if (file >= 0 && ::ftruncate(file, off_t(whole)) == 0 && ::fstat(file, &what) == 0
      && ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    at = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) {
    const int why = errno;
    if (file >= 0)
      ::close(file);
    throw io_error(
        "cannot make {} bytes of memory that other processes map: {}; raise the limits of "
        "descriptors and memory",
        whole,
        system_message(why));
  }
  ::madvise(at, whole, MADV_HUGEPAGE);  // a wish: without it the pages are small
  auto* const begin = static_cast<std::byte*>(at);
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

// A block that can shrink would end a reader by SIGBUS.
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
    at = ::mmap(nullptr, whole, PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  if (at == MAP_FAILED)
    return nullptr;
  ::madvise(at, whole, MADV_HUGEPAGE);
  const auto* const begin = static_cast<const std::byte*>(at);
  return {begin, [whole](const std::byte* x) { ::munmap(const_cast<std::byte*>(x), whole); }};
}

}  // namespace troupe::runtime
