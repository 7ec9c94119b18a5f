#include "tests/emulator/memory.hpp"

#include "tests/emulator/device.hpp"
#include "tests/emulator/faults.hpp"
#include "tests/emulator/settings.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) static_cast<void>(at)
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) static_cast<void>(at)
#endif

namespace troupe::emulator {
namespace {

constexpr std::size_t alignment = 256;
/// The system opens and closes each existing page with each item of a stream. Therefore pages are
/// huge if possible, and large blocks are poisoned only at both ends, so that few pages exist.
constexpr std::size_t page = std::size_t{2} << 20;
constexpr std::size_t poisoned_at_least = std::size_t{1} << 20;

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + page - 1) / page * page;
}

/// Size of a block with the guard space behind it.
std::size_t with_margin(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment + alignment;
}

/// `at`: an even address.
void fill_with_poison(std::byte* at, std::size_t bytes) {
  std::fill_n(reinterpret_cast<std::uint16_t*>(at), bytes / 2, poison);
}

class device_memory {
 public:
  device_memory() : each_(whole_pages(2 * machine().memory)) {
    std::size_t all = each_ * std::size_t(machine().devices) + page;
    void* at = ::mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
      std::perror("emulated device: cannot reserve memory");
      std::exit(2);
    }
    ::madvise(at, all, MADV_HUGEPAGE);  // slower without
    first_ = static_cast<std::byte*>(std::align(page, all - page, at, all));
    parts_.resize(std::size_t(machine().devices));
  }

  void open() {
    const std::lock_guard lock(gate_);
    if (opened_++ == 0)
      protect(PROT_READ | PROT_WRITE);
  }

  void close() {
    const std::lock_guard lock(gate_);
    if (--opened_ == 0)
      protect(PROT_NONE);
    explain_faults();
  }

  void* allocate(int device, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto& of = parts_[std::size_t(device)];
    const std::size_t space = with_margin(bytes);
    const std::size_t at = gap(of, space);
    if (of.used + bytes > machine().memory || at + space > each_)
      return nullptr;
    grow(device, at + space);
    of.used += bytes;
    of.blocks[at] = bytes;
    fill(device, at, space, bytes);
    return start(device) + at;
  }

  bool free(void* address) {
    const std::lock_guard lock(mutex_);
    const auto device = device_of(address);
    if (!device)
      return false;
    auto& of = parts_[std::size_t(*device)];
    const auto found
        = of.blocks.find(std::size_t(static_cast<std::byte*>(address) - start(*device)));
    if (found == of.blocks.end())
      return false;
    check_margin(*device, found->first, found->second);
    fill(*device, found->first, with_margin(found->second), 0);
    of.used -= found->second;
    of.blocks.erase(found);
    return true;
  }

  std::optional<memory_block> block(const void* address) {
    const std::lock_guard lock(mutex_);
    const auto device = device_of(address);
    if (!device)
      return std::nullopt;
    const auto& of = parts_[std::size_t(*device)];
    const auto at = std::size_t(static_cast<const std::byte*>(address) - start(*device));
    auto found = of.blocks.upper_bound(at);
    if (found == of.blocks.begin()
        || at >= (--found)->first + std::max<std::size_t>(1, found->second))
      return std::nullopt;
    return memory_block{start(*device) + found->first, found->second, *device};
  }

  std::optional<int> device_of(const void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const auto begin = reinterpret_cast<std::uintptr_t>(first_);
    if (at < begin || at >= begin + each_ * parts_.size())
      return std::nullopt;
    return int((at - begin) / each_);
  }

  std::vector<void*> all_of(int device) {
    const std::lock_guard lock(mutex_);
    std::vector<void*> all;
    for (const auto& [at, bytes] : parts_[std::size_t(device)].blocks)
      all.push_back(start(device) + at);
    return all;
  }

  std::size_t left(int device) {
    const std::lock_guard lock(mutex_);
    return machine().memory - parts_[std::size_t(device)].used;
  }

 private:
  struct part {
    std::map<std::size_t, std::size_t> blocks;  ///< bytes, by offset in the device's range
    std::size_t used = 0;
    std::size_t reach = 0;  ///< end of all memory used so far; also guarded by gate_
  };

  std::byte* start(int device) const { return first_ + each_ * std::size_t(device); }

  /// The first gap that is large enough; it may lie behind all blocks.
  static std::size_t gap(const part& of, std::size_t space) {
    std::size_t at = 0;
    for (const auto& [begin, bytes] : of.blocks) {
      if (begin - at >= space)
        return at;
      at = begin + with_margin(bytes);
    }
    return at;
  }

  void grow(int device, std::size_t to) {
    const std::lock_guard lock(gate_);
    auto& of = parts_[std::size_t(device)];
    to = whole_pages(to);
    if (to <= of.reach)
      return;
    ASAN_POISON_MEMORY_REGION(start(device) + of.reach, to - of.reach);
    of.reach = to;
    if (opened_ > 0)
      protect(PROT_READ | PROT_WRITE);
  }

  void protect(int protection) {
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (parts_[i].reach > 0 && ::mprotect(start(int(i)), parts_[i].reach, protection) != 0) {
        std::perror("emulated device: cannot protect memory");
        std::abort();
      }
  }

  /// Poisons the whole space; afterwards only the first `usable` bytes may be accessed.
  void fill(int device, std::size_t at, std::size_t space, std::size_t usable) {
    const memory_access access;
    std::byte* const begin = start(device) + at;
    ASAN_UNPOISON_MEMORY_REGION(begin, space);
    // Returns the whole pages in between to the system.
    const std::size_t first = whole_pages(at + poisoned_at_least);
    const std::size_t last = (at + space) / page * page;
    if (first < last) {
      fill_with_poison(begin, first - at);
      ::madvise(start(device) + first, last - first, MADV_DONTNEED);
      fill_with_poison(start(device) + last, at + space - last);
    } else {
      fill_with_poison(begin, space);
    }
    ASAN_POISON_MEMORY_REGION(begin + usable, space - usable);
  }

  /// Checks that the space behind a block still holds the poison; otherwise breaks the device.
  void check_margin(int device, std::size_t at, std::size_t bytes) {
    const memory_access access;
    const std::byte* const begin = start(device) + at;
    const std::size_t space = with_margin(bytes);
    ASAN_UNPOISON_MEMORY_REGION(begin + bytes, space - bytes);
    for (std::size_t i = bytes; i < space; ++i)
      if (begin[i] != std::byte(poison >> (i % 2 * 8) & 0xff)) {
        break_device(device,
                     {cudaErrorIllegalAddress,
                      "a write went " + std::to_string(i - bytes) + " bytes behind the end of "
                          + std::to_string(bytes) + " bytes of device memory"});
        return;
      }
  }

  std::size_t each_;  ///< bytes of one device's address range: twice its memory, because of gaps
  std::byte* first_ = nullptr;
  std::mutex mutex_;
  std::vector<part> parts_;
  std::mutex gate_;
  int opened_ = 0;
};

// Never destroyed: streams still work while the process ends.
device_memory& memory() {
  static auto* const all = new device_memory;
  return *all;
}

struct pinned_memory {
  std::mutex mutex;
  std::map<const std::byte*, std::size_t> blocks;
};

pinned_memory& pinned() {
  static auto* const all = new pinned_memory;
  return *all;
}

bool drop_pinned(void* at) {
  const std::lock_guard lock(pinned().mutex);
  return pinned().blocks.erase(static_cast<const std::byte*>(at)) == 1;
}

}  // namespace

memory_access::memory_access() {
  memory().open();
}
memory_access::~memory_access() {
  memory().close();
}

void* allocate_device(int device, std::size_t bytes) {
  return memory().allocate(device, bytes);
}
bool free_device(void* at) {
  return memory().free(at);
}
std::optional<memory_block> device_block(const void* at) {
  return memory().block(at);
}
std::optional<int> device_of(const void* at) {
  return memory().device_of(at);
}
std::size_t free_bytes(int device) {
  return memory().left(device);
}

void free_all_of(int device) {
  for (void* const at : memory().all_of(device))
    memory().free(at);
}

void* allocate_pinned(std::size_t bytes) {
  void* const at
      = std::aligned_alloc(page, (std::max<std::size_t>(bytes, 1) + page - 1) / page * page);
  if (at != nullptr)
    register_pinned(at, std::max<std::size_t>(bytes, 1));
  return at;
}

bool free_pinned(void* at) {
  const bool known = drop_pinned(at);
  if (known)
    std::free(at);
  return known;
}

bool register_pinned(void* at, std::size_t bytes) {
  const std::lock_guard lock(pinned().mutex);
  return pinned().blocks.try_emplace(static_cast<const std::byte*>(at), bytes).second;
}

bool unregister_pinned(void* at) {
  return drop_pinned(at);
}

bool is_pinned(const void* at) {
  const std::lock_guard lock(pinned().mutex);
  auto found = pinned().blocks.upper_bound(static_cast<const std::byte*>(at));
  if (found == pinned().blocks.begin())
    return false;
  --found;
  return static_cast<const std::byte*>(at) < found->first + found->second;
}

}  // namespace troupe::emulator
