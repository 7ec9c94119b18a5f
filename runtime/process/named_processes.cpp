#include "runtime/process/named_processes.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <sys/mman.h>

namespace troupe::runtime {

/// An empty slot is all zero. The pid is written last and cleared first, so a slot with a pid has a
/// valid start time.
struct named_processes::slot {
  std::atomic<std::uint64_t> start_time;
  std::atomic<pid_t> pid;
};

named_processes::named_processes(std::size_t most)
    : most_(most),
      slots_(static_cast<slot*>(::mmap(nullptr,
                                       most * sizeof(slot),
                                       PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_ANONYMOUS,
                                       -1,
                                       0))) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free
                && std::atomic<pid_t>::is_always_lock_free);
  if (static_cast<void*>(slots_) == MAP_FAILED)
    throw io_error("cannot share memory with a guard: {}", system_message(errno));
}

named_processes::~named_processes() {
  ::munmap(slots_, most_ * sizeof(slot));
}

void named_processes::add(const process_id& x) {
  const auto end = slots_ + most_;
  auto* const free = std::find_if(slots_, end, [](const slot& s) { return s.pid == 0; });
  if (free == end)
    throw io_error("there are {} processes already", most_);
  free->start_time = x.start_time;
  free->pid = x.pid;
}

void named_processes::remove(const process_id& x) {
  for (auto* s = slots_; s != slots_ + most_; ++s)
    if (s->pid == x.pid && s->start_time == x.start_time)
      s->pid = 0;
}

std::vector<process_id> named_processes::all() const {
  std::vector<process_id> out;
  for (const auto* s = slots_; s != slots_ + most_; ++s)
    if (const pid_t pid = s->pid; pid != 0)
      out.push_back({.pid = pid, .start_time = s->start_time});
  return out;
}

bool named_processes::has(pid_t pid) const {
  return std::any_of(slots_, slots_ + most_, [pid](const slot& s) { return s.pid == pid; });
}

}  // namespace troupe::runtime
