#include "runtime/core/thread.hpp"

#include "runtime/core/error.hpp"

#include <fmt/format.h>
#include <fstream>
#include <pthread.h>
#include <sys/resource.h>
#include <system_error>
#include <utility>

namespace troupe::runtime {
namespace {

thread_local bool asking = false;

struct asking_the_system {
  asking_the_system() { asking = true; }
  ~asking_the_system() { asking = false; }
};

std::string word_of(const char* file) {
  std::ifstream from(file);
  std::string word;
  from >> word;
  return word;
}

std::string limit_of_user() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NPROC, &limit) != 0)
    return "unknown";
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur);
}

/// Limit of the container's control group; empty without one.
std::string limit_of_control_group() {
  const auto most = word_of("/sys/fs/cgroup/pids.max");
  if (most.empty())
    return {};
  return fmt::format(", pids.max of the control group: {}, {} in use",
                     most,
                     word_of("/sys/fs/cgroup/pids.current"));
}

}  // namespace

std::jthread start_thread(const std::string& name, std::function<void()> work) {
  try {
    const asking_the_system mark;
    std::jthread out(std::move(work));
    ::pthread_setname_np(out.native_handle(), name.substr(0, 15).c_str());
    return out;
  } catch (const std::system_error& refusal) {
    throw io_error("{}", refused_thread(name, refusal.code().value()));
  }
}

std::string refused_thread(const std::string& name, int error_number) {
  return fmt::format(
      "cannot start the thread '{}': {}; raise the limit of processes and threads (ulimit -u: "
      "{}{}) "
      "or of memory (ulimit -v), or use fewer workers or fewer threads per worker",
      name,
      system_message(error_number),
      limit_of_user(),
      limit_of_control_group());
}

bool handles_refused_thread() {
  return asking;
}

}  // namespace troupe::runtime
