#include "runtime/process/disturbance.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds glance{10};
constexpr milliseconds period{50};  // of one slow-down cycle

/// Waits for `time`, or until the process ends.
void pass(const process_id& whom, milliseconds time, const may_wait& wait) {
  const auto end = clock::now() + time;
  while (clock::now() < end && wait() && is_running(whom))
    std::this_thread::sleep_for(
        std::min<clock::duration>(glance, std::max(end - clock::now(), clock::duration(0))));
}

std::string limit_of(const process_id& whom, int resource, rlim_t soft, rlim_t& before) {
  struct rlimit old = {}, now = {};
  if (::prlimit(whom.pid, decltype(RLIMIT_AS)(resource), nullptr, &old) != 0)
    return fmt::format("cannot read the limits of process {}: {}", whom.pid, system_message(errno));
  before = old.rlim_cur;
  now.rlim_cur = std::min(soft, old.rlim_max);
  now.rlim_max = old.rlim_max;
  if (::prlimit(whom.pid, decltype(RLIMIT_AS)(resource), &now, nullptr) != 0)
    return fmt::format("cannot set the limits of process {}: {}", whom.pid, system_message(errno));
  return {};
}

}  // namespace

bool strike(const process_id& whom, int signal) {
  const auto alive = running_process::find(whom);
  return alive && alive->signal(signal);
}

void hold_still(const process_id& whom, milliseconds time, const may_wait& wait) {
  if (!strike(whom, SIGSTOP))
    return;
  pass(whom, time, wait);
  strike(whom, SIGCONT);
}

void slow_down(const process_id& whom, int times, milliseconds time, const may_wait& wait) {
  const auto end = clock::now() + time;
  while (clock::now() < end && wait() && strike(whom, SIGSTOP)) {
    std::this_thread::sleep_for(period - period / times);
    if (!strike(whom, SIGCONT))
      return;
    std::this_thread::sleep_for(period / times);
  }
}

std::string make_scarce(const process_id& whom,
                        scarce what,
                        const std::string& file,
                        milliseconds time,
                        const may_wait& wait) {
  constexpr rlim_t beginning = 7;  // bytes of a record, which is then incomplete
  // RLIMIT_DATA as well: a reserved heap grows within its address range.
  const auto resources = what == scarce::memory ? std::vector{int(RLIMIT_AS), int(RLIMIT_DATA)}
                                                : std::vector{int(RLIMIT_FSIZE)};
  std::error_code none;
  const auto size = what == scarce::last_bytes ? std::filesystem::file_size(file, none) : 0;
  if (none)
    return fmt::format("'{}' does not exist: {}", file, none.message());
  const rlim_t soft = what == scarce::memory ? 0 : what == scarce::disk ? 1 : size + beginning;
  std::vector<std::pair<int, rlim_t>> before;
  std::string why;
  for (const int resource : resources) {
    rlim_t was = 0;
    why = limit_of(whom, resource, soft, was);
    if (!why.empty())
      break;
    before.emplace_back(resource, was);
  }
  if (why.empty())
    pass(whom, time, wait);
  for (const auto& [resource, was] : before) {
    if (!is_running(whom))
      break;
    rlim_t ignored = 0;
    const auto then = limit_of(whom, resource, was, ignored);
    if (why.empty() && is_running(whom))
      why = then;
  }
  return why;
}

}  // namespace troupe::runtime
