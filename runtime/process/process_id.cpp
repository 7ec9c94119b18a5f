#include "runtime/process/process_id.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/process/pidfd.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <poll.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/utsname.h>

namespace troupe::runtime {
namespace {

/// One read: the kernel generates the text anew for each.
std::string stat_text(pid_t pid) {
  const descriptor file(
      ::open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file)
    return {};
  char text[1024];
  const auto size = ::read(file.number(), text, sizeof text);
  return {text, size > 0 ? std::size_t(size) : 0};
}

template <class Wanted>
std::vector<process_facts> processes_with(const Wanted& wanted) {
  std::vector<process_facts> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir("/proc"), ::closedir);
  if (all == nullptr)
    throw io_error("cannot list /proc: {}", system_message(errno));
  while (const auto* entry = ::readdir(all.get()))
    if (const auto pid = std::atoi(entry->d_name); pid > 0)
      if (const auto facts = look_at_process(pid); facts && wanted(*facts))
        out.push_back(*facts);
  return out;
}

}  // namespace

std::optional<process_facts> read_process_facts(const std::string& stat) {
  const auto name = stat.find('('), end = stat.rfind(')');
  if (name == std::string::npos || end == std::string::npos || end < name)
    return std::nullopt;
  process_facts out;
  std::istringstream before(stat.substr(0, name)), after(stat.substr(end + 1));
  before >> out.id.pid;
  after >> out.state >> out.parent >> out.group;
  constexpr int between = 16;  // fields 6 to 21
  std::string skipped;
  for (int i = 0; i < between; ++i)
    after >> skipped;
  after >> out.id.start_time;
  return before && after ? std::optional(out) : std::nullopt;
}

std::optional<process_facts> look_at_process(pid_t pid) {
  return pid > 0 ? read_process_facts(stat_text(pid)) : std::nullopt;
}

process_id this_process() {
  const auto facts = look_at_process(::getpid());
  if (!facts)
    throw io_error("cannot read /proc/{}/stat; /proc has to be mounted", ::getpid());
  return facts->id;
}

bool is_running(const process_id& x) {
  const auto now = look_at_process(x.pid);
  return now && now->id == x && now->state != 'Z' && now->state != 'X';
}

std::vector<process_facts> children_of(pid_t parent) {
  return processes_with([parent](const process_facts& x) { return x.parent == parent; });
}

// The group's number is not reused while a member is left; but all may have ended.
void kill_group(const process_id& leader) {
  const auto members
      = processes_with([&](const process_facts& x) { return x.group == leader.pid; });
  for (const auto& one : members)
    if (one.id.pid == leader.pid && one.id != leader)
      return;
  for (const auto& one : members)
    if (const auto it = running_process::find(one.id))
      it->signal(SIGKILL);
}

std::vector<std::string> command_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
  std::vector<std::string> out;
  for (std::string word; std::getline(file, word, '\0');)
    out.push_back(std::move(word));
  return out;
}

std::string host_name() {
  utsname names = {};
  ::uname(&names);
  return names.nodename;
}

std::uint64_t steady_clock_of_machine() {
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  return std::getline(file, boot) ? hash64(boot) : 0;
}

std::optional<running_process> running_process::find(const process_id& x) {
  auto out = find_also_ended(x);
  return out && is_running(x) ? std::move(out) : std::nullopt;
}

std::optional<running_process> running_process::find_also_ended(const process_id& x) {
  auto pidfd = x.pid > 0 ? open_pidfd(x.pid) : descriptor();
  if (!pidfd && x.pid > 0 && errno != ESRCH && errno != EINVAL)
    throw io_error("cannot watch process {}: {}", x.pid, system_message(errno));
  // Checked after opening, so that the descriptor belongs to the process found here.
  if (const auto now = look_at_process(x.pid); !pidfd || !now || now->id != x)
    return std::nullopt;
  return running_process(x.pid, std::move(pidfd));
}

bool running_process::signal(int number) const {
  if (signal_pidfd(pidfd_, number) == 0)
    return true;
  if (errno == ESRCH)
    return false;
  throw io_error("cannot send signal {} to process {}: {}", number, pid_, system_message(errno));
}

bool running_process::wait(std::chrono::milliseconds at_most) const {
  pollfd ended{pidfd_.number(), POLLIN, 0};
  return ::poll(&ended, 1, int(at_most.count())) == 1;
}

bool end_with_parent(pid_t parent) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
    throw io_error(
        "cannot bind this process to the end of process {}: {}", parent, system_message(errno));
  return ::getppid() == parent;
}

}  // namespace troupe::runtime
