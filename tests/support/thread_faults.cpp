// Makes pthread_create fail; preloaded into the program. The environment says which calls fail
// (`count` calls from the nth on) and which file is created when one fails:
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

// Never destroyed: threads also start while the process ends.
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
