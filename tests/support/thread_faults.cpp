// A system that gives no threads: preloaded into the program, whose environment says from the nth
// on, how many are refused, and which file is made when one is:
//
//   TROUPE_TEST_THREAD_FAULT="5 1000000 /tmp/refused"    nth count file

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sstream>
#include <string>
#include <unistd.h>

namespace {

struct fault {
  long nth = 0, count = 0;
  std::string file;
  std::atomic<long> seen = 0;
};

// Never destroyed: threads are started while the process ends, too.
fault& planted() {
  static auto* const it = [] {
    auto* const out = new fault;
    if (const char* const text = std::getenv("TROUPE_TEST_THREAD_FAULT"))
      std::istringstream(text) >> out->nth >> out->count >> out->file;
    return out;
  }();
  return *it;
}

}  // namespace

extern "C" int pthread_create(pthread_t* thread,
                              const pthread_attr_t* attributes,
                              void* (*work)(void*),
                              void* argument) noexcept {
  using create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static auto* const real = reinterpret_cast<create*>(::dlsym(RTLD_NEXT, "pthread_create"));
  auto& what = planted();
  const long number = ++what.seen;
  if (what.nth == 0 || number < what.nth || number - what.nth >= what.count)
    return real(thread, attributes, work, argument);
  ::close(::open(what.file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  return EAGAIN;
}
