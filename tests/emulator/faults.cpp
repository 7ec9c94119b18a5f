#include "tests/emulator/faults.hpp"

#include "tests/emulator/block.hpp"
#include "tests/emulator/memory.hpp"

#include <cstdio>
#include <mutex>
#include <signal.h>
#include <unistd.h>

namespace troupe::emulator {
namespace {

struct sigaction before = {};

// Not what a handler may do, strictly; but the fault is the thread's own, and it is about to die.
void explain(int, siginfo_t* info, void*) {
  char text[512] = {};
  if (const auto* const runner = block_runner::current(); runner != nullptr)
    std::snprintf(text,
                  sizeof text,
                  "emulated device: %s touches memory that is not there, at %p\n",
                  runner->where().c_str(),
                  info->si_addr);
  else if (device_of(info->si_addr))
    std::snprintf(text,
                  sizeof text,
                  "emulated device: the host touches device memory, at %p: it must be copied\n",
                  info->si_addr);
  if (::write(2, text, std::char_traits<char>::length(text)) < 0) {
  }
  ::sigaction(SIGSEGV, &before, nullptr);  // and the instruction faults again
}

}  // namespace

void explain_faults() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  struct sigaction now = {};
  ::sigaction(SIGSEGV, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == explain)
    return;
  before = now;
  struct sigaction ours = {};
  ours.sa_sigaction = explain;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGSEGV, &ours, nullptr);
}

}  // namespace troupe::emulator
