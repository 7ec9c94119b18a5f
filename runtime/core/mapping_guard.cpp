#include "runtime/core/mapping_guard.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace troupe::runtime {

// Places are used again and never freed, so that the handler may walk them at any moment.
struct mapping_guard::place {
  static constexpr std::size_t nothing = SIZE_MAX;

  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::size_t> size = 0;  ///< 0: free
  std::atomic<std::size_t> unreadable = nothing;
  place* next = nullptr;
};

namespace {

using place = mapping_guard::place;

std::atomic<place*> first = nullptr;
std::size_t page_size = 4096;
struct sigaction before = {};

place* place_of(std::uintptr_t address) {
  for (auto* x = first.load(std::memory_order_acquire); x != nullptr; x = x->next) {
    const auto size = x->size.load(std::memory_order_acquire);
    if (address - x->begin.load(std::memory_order_relaxed) < size)
      return x;
  }
  return nullptr;
}

// Only what may be done in a signal handler: atomics and a system call.
void put_zeros(int, siginfo_t* about, void*) {
  const int error_number = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(about->si_addr);
  const auto page = address / page_size * page_size;
  place* const found = place_of(address);
  void* at = MAP_FAILED;
  if (found != nullptr) {
    const auto offset = page - found->begin.load(std::memory_order_relaxed);
    auto known = found->unreadable.load(std::memory_order_relaxed);
    while (offset < known && !found->unreadable.compare_exchange_weak(known, offset)) {
    }
    at = ::mmap(reinterpret_cast<void*>(page),
                page_size,
                PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                -1,
                0);
  }
  if (at == MAP_FAILED)
    ::sigaction(SIGBUS, &before, nullptr);  // it is touched again, and dealt with as it was before
  errno = error_number;
}

void take_over() {
  page_size = std::size_t(::sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = put_zeros;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &before);
}

std::mutex& taking() {
  static std::mutex it;
  return it;
}

place* free_place() {
  for (auto* x = first.load(); x != nullptr; x = x->next)
    if (x->size.load() == 0)
      return x;
  auto* const made = new place;
  made->next = first.load();
  first.store(made, std::memory_order_release);
  return made;
}

}  // namespace

mapping_guard::mapping_guard(const void* begin, std::size_t size) {
  static std::once_flag once;
  std::call_once(once, take_over);
  const std::lock_guard lock(taking());
  place_ = free_place();
  place_->unreadable.store(place::nothing);
  place_->begin.store(reinterpret_cast<std::uintptr_t>(begin));
  place_->size.store(std::max<std::size_t>(size, 1), std::memory_order_release);
}

mapping_guard::~mapping_guard() {
  const std::lock_guard lock(taking());
  place_->size.store(0, std::memory_order_release);
}

std::optional<std::size_t> mapping_guard::unreadable() const {
  const auto offset = place_->unreadable.load();
  return offset == place::nothing ? std::nullopt : std::optional(offset);
}

}  // namespace troupe::runtime
