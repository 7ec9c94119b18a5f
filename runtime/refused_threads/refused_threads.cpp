// The libraries that we stand on start threads, too, and cannot go on without: OpenMP would end the
// process without our message, CAF by a signal, or it would wait for ever for an actor that never
// ran. So a program that links this (troupe::refused_threads) stands between them and the system. A
// limit is often reached for a moment only, by others of the same user: a request waits a little
// before it is refused.

#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <dlfcn.h>
#include <pthread.h>
#include <thread>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;
using create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

constexpr auto patience = 1s;
constexpr auto longest_pause = 100ms;

/// Nothing is saved: checkpoints that were complete stand, and the next run goes on from there.
[[noreturn]] void end_for_want_of_a_thread() {
  troupe::runtime::finish_log(1s);
  std::fprintf(stderr,
               "troupe: error: %s\n",
               troupe::runtime::refused_thread("of a library", EAGAIN).c_str());
  ::_exit(2);
}

}  // namespace

extern "C" int pthread_create(pthread_t* thread,
                              const pthread_attr_t* attributes,
                              void* (*work)(void*),
                              void* argument) noexcept {
  static auto* const system = reinterpret_cast<create*>(::dlsym(RTLD_NEXT, "pthread_create"));
  auto waited = 0ms;
  for (auto pause = 1ms;; pause = std::min(2 * pause, longest_pause)) {
    const int refusal = system(thread, attributes, work, argument);
    if (refusal != EAGAIN)
      return refusal;
    if (waited >= patience) {
      if (troupe::runtime::handles_refused_thread())
        return refusal;
      end_for_want_of_a_thread();
    }
    std::this_thread::sleep_for(pause);
    waited += pause;
  }
}
