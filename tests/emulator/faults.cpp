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

// Calls functions that are not async-signal-safe; the thread caused the fault itself and is about
// to end.
void explain(int, siginfo_t* info, void*) {
  char text[512] = {};
  if (const auto* const runner = block_runner::current(); runner != nullptr)
    std::snprintf(text,
                  sizeof text,
                  "emulated device: %s accesses unmapped memory at %p\n",
                  runner->where().c_str(),
                  info->si_addr);
  else if (device_of(info->si_addr))
    std::snprintf(text,
                  sizeof text,
                  "emulated device: the host touches device memory, at %p: it must be copied\n",
                  info->si_addr);
  if (::write(2, text, std::char_traits<char>::length(text)) < 0) {
  }
  ::sigaction(SIGSEGV, &before, nullptr);  // the instruction then faults again
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
