// Wraps pthread_create, so that a refused thread ends the process with our message. Without the
// wrapper, OpenMP would end the process without that message. CAF would end it by a signal, or wait
// forever for an actor that never ran. A program gets the wrapper by linking
// troupe::refused_threads. The wrapper retries for a while before it gives up, because other
// processes of the user often reach the limit only briefly.

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

/// Ends the process without saving. Complete checkpoints remain; the next run resumes from them.
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
