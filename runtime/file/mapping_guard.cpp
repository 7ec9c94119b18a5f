#include "runtime/file/mapping_guard.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace troupe::runtime {

// Ranges are reused and never freed, so that the signal handler may walk the list at any moment.
struct mapping_guard::guarded_range {
  static constexpr std::size_t nothing = SIZE_MAX;

  std::atomic<std::uint32_t> sequence = 0;  ///< odd while begin and size change (a seqlock)
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::size_t> size = 0;  ///< 0: free
  std::atomic<std::size_t> unreadable = nothing;
  guarded_range* next = nullptr;
};

namespace {

using guarded_range = mapping_guard::guarded_range;

std::atomic<guarded_range*> first = nullptr;
std::size_t page_size = 4096;
struct sigaction before = {};
std::atomic<bool> before_is_spent = false;

// A range that changes during the check belongs to another mapping, because the faulting one is
// mapped and guarded. Sequentially consistent, so that the two reads of the sequence enclose the
// others.
bool holds(const guarded_range& x, std::uintptr_t address) {
  const auto sequence = x.sequence.load();
  const auto begin = x.begin.load();
  const auto size = x.size.load();
  return sequence % 2 == 0 && sequence == x.sequence.load() && address - begin < size;
}

/// Called with the lock held.
void change(guarded_range& x, std::uintptr_t begin, std::size_t size) {
  ++x.sequence;
  x.begin = begin;
  x.size = size;
  ++x.sequence;
}

guarded_range* range_of(std::uintptr_t address) {
  for (auto* x = first.load(std::memory_order_acquire); x != nullptr; x = x->next)
    if (holds(*x, address))
      return x;
  return nullptr;
}

bool put_zeros(std::uintptr_t address) {
  const auto page = address / page_size * page_size;
  guarded_range* const found = range_of(address);
  if (found == nullptr)
    return false;
  const auto offset = page - found->begin.load(std::memory_order_relaxed);
  auto known = found->unreadable.load(std::memory_order_relaxed);
  while (offset < known && !found->unreadable.compare_exchange_weak(known, offset)) {
  }
  return ::mmap(reinterpret_cast<void*>(page),
                page_size,
                PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                -1,
                0)
         != MAP_FAILED;
}

bool is_function(const struct sigaction& x) {
  return (x.sa_flags & SA_SIGINFO) != 0 || (x.sa_handler != SIG_DFL && x.sa_handler != SIG_IGN);
}

// Does what would have happened without the guard. A handler function is called from here and the
// guard stays installed. The default action is restored for this signal and ends the process.
void pass_on(int number, siginfo_t* about, void* context, bool is_fault) {
  const bool once = (before.sa_flags & int(SA_RESETHAND)) != 0;
  if (is_function(before) && !(once && before_is_spent.exchange(true))) {
    if ((before.sa_flags & SA_SIGINFO) != 0)
      before.sa_sigaction(number, about, context);
    else
      before.sa_handler(number);
    return;
  }
  if (!is_fault && before.sa_handler == SIG_IGN)
    return;
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;  // a fault cannot be ignored
  ::sigaction(number, &action, nullptr);
  if (!is_fault)  // a fault recurs by itself; a sent signal does not
    ::raise(number);
}

// Async-signal-safe: uses only atomics and system calls.
void handle(int number, siginfo_t* about, void* context) {
  const int error_number = errno;
  // Other SIGBUS signals were sent by a process, or report a page that was not accessed yet
  // (BUS_MCEERR_AO).
  const bool is_fault = about->si_code > 0 && about->si_code != BUS_MCEERR_AO;
  if (!is_fault || !put_zeros(reinterpret_cast<std::uintptr_t>(about->si_addr)))
    pass_on(number, about, context, is_fault);
  errno = error_number;
}

void take_over() {
  page_size = std::size_t(::sysconf(_SC_PAGESIZE));
  ::sigaction(SIGBUS, nullptr, &before);
  struct sigaction action = {};
  action.sa_sigaction = handle;
  action.sa_mask = before.sa_mask;
  action.sa_flags
      = SA_SIGINFO | SA_ONSTACK
        | (is_function(before) ? before.sa_flags & (SA_NODEFER | SA_RESTART) : SA_RESTART);
  ::sigaction(SIGBUS, &action, nullptr);
}

std::mutex& taking() {
  static std::mutex it;
  return it;
}

guarded_range* free_range() {
  for (auto* x = first.load(); x != nullptr; x = x->next)
    if (x->size.load() == 0)
      return x;
  auto* const made = new guarded_range;
  made->next = first.load();
  first.store(made, std::memory_order_release);
  return made;
}

}  // namespace

mapping_guard::mapping_guard(const void* begin, std::size_t size) {
  static std::once_flag once;
  std::call_once(once, take_over);
  const std::lock_guard lock(taking());
  range_ = free_range();
  range_->unreadable.store(guarded_range::nothing);
  change(*range_, reinterpret_cast<std::uintptr_t>(begin), std::max<std::size_t>(size, 1));
}

mapping_guard::~mapping_guard() {
  const std::lock_guard lock(taking());
  change(*range_, 0, 0);
}

std::optional<std::size_t> mapping_guard::unreadable() const {
  const auto offset = range_->unreadable.load();
  return offset == guarded_range::nothing ? std::nullopt : std::optional(offset);
}

}  // namespace troupe::runtime
