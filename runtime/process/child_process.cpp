#include "runtime/process/child_process.hpp"

#include "runtime/core/error.hpp"
#include "runtime/process/pidfd.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <map>
#include <poll.h>
#include <spawn.h>
#include <unistd.h>

namespace troupe::runtime {
namespace {

constexpr int first_inherited = 3;

void require(int error_number, const char* what) {
  if (error_number != 0)
    throw io_error("cannot prepare a process ({}): {}", what, system_message(error_number));
}

class spawn_attributes {
 public:
  spawn_attributes() {
    require(::posix_spawnattr_init(&of_), "attributes");
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&of_, &none);
    ::posix_spawnattr_setsigdefault(&of_, &all);
    ::posix_spawnattr_setflags(&of_,
                               POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~spawn_attributes() { ::posix_spawnattr_destroy(&of_); }
  spawn_attributes(const spawn_attributes&) = delete;
  spawn_attributes& operator=(const spawn_attributes&) = delete;
  const posix_spawnattr_t* get() const { return &of_; }

 private:
  posix_spawnattr_t of_ = {};
};

class file_actions {
 public:
  file_actions() { require(::posix_spawn_file_actions_init(&of_), "descriptors"); }
  ~file_actions() { ::posix_spawn_file_actions_destroy(&of_); }
  file_actions(const file_actions&) = delete;
  file_actions& operator=(const file_actions&) = delete;
  posix_spawn_file_actions_t* get() { return &of_; }

 private:
  posix_spawn_file_actions_t of_ = {};
};

class spawn_descriptors {
 public:
  spawn_descriptors(int input, int output, const std::vector<int>& inherited) {
    if (input >= 0)
      move(input, STDIN_FILENO);
    else
      require(
          ::posix_spawn_file_actions_addopen(all_.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0),
          "standard input");
    move(output, STDOUT_FILENO);
    move(output, STDERR_FILENO);
    const int end = first_inherited + int(inherited.size());
    for (std::size_t i = 0; i < inherited.size(); ++i) {
      // The copies lie above all targets, so that no source is overwritten before it is copied.
      copies_.emplace_back(::fcntl(inherited[i], F_DUPFD_CLOEXEC, end));
      if (!copies_.back())
        throw io_error(
            "cannot give descriptor {} to a process: {}", inherited[i], system_message(errno));
      move(copies_.back().number(), first_inherited + int(i));
    }
    // Closes what libraries opened, with O_CLOEXEC or without (CHILD-1).
    require(::posix_spawn_file_actions_addclosefrom_np(all_.get(), end), "other descriptors");
  }
  const posix_spawn_file_actions_t* get() { return all_.get(); }

 private:
  void move(int from, int to) {
    require(::posix_spawn_file_actions_adddup2(all_.get(), from, to), "descriptors");
  }

  file_actions all_;
  std::vector<descriptor> copies_;
};

descriptor open_output(const std::filesystem::path& path) {
  const auto name = path.empty() ? std::filesystem::path("/dev/null") : path;
  descriptor out(
      ::open(name.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!out)
    throw io_error(
        "cannot write the output of a process to '{}': {}", name.string(), system_message(errno));
  // Above the targets of all copies.
  constexpr int above = 64;
  descriptor moved(::fcntl(out.number(), F_DUPFD_CLOEXEC, above));
  return moved ? std::move(moved) : std::move(out);
}

std::vector<std::string> environment_with(const std::vector<std::string>& changes) {
  std::map<std::string, std::string> all;
  const auto take
      = [&](const std::string& entry) { all[entry.substr(0, entry.find('='))] = entry; };
  for (char** entry = environ; *entry != nullptr; ++entry)
    take(*entry);
  for (const auto& entry : changes)
    take(entry);
  std::vector<std::string> out;
  out.reserve(all.size());
  for (auto& [name, entry] : all)
    out.push_back(std::move(entry));
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (auto& word : words)
    out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

child_process::child_process(const child_program& what) : kills_before_(out_of_memory_kills()) {
  if (what.command.empty() || what.command.front().empty())
    throw io_error("cannot start a process: no program is named");
  const auto output = open_output(what.output);
  const spawn_attributes attributes;
  spawn_descriptors descriptors(what.input, output.number(), what.inherited);
  auto command = what.command, environment = environment_with(what.environment);
  if (const int failure = ::posix_spawn(&id_.pid,
                                        command.front().c_str(),
                                        descriptors.get(),
                                        attributes.get(),
                                        pointers_to(command).data(),
                                        pointers_to(environment).data()))
    throw io_error("cannot start '{}': {}", command.front(), system_message(failure));
  // Only this process waits for the child, so its pid and stat stay valid until then.
  pidfd_ = open_pidfd(id_.pid);
  const auto facts = look_at_process(id_.pid);
  if (!pidfd_ || !facts) {
    const auto why = system_message(errno);
    ::kill(id_.pid, SIGKILL);
    ::waitpid(id_.pid, nullptr, 0);
    throw io_error("cannot watch '{}', which was started: {}", command.front(), why);
  }
  id_ = facts->id;
}

child_process::~child_process() {
  if (!is_ours())
    return;
  signal_group(SIGKILL);
  wait();
}

bool child_process::signal(int number) const {
  if (!is_ours())
    return false;
  if (signal_pidfd(pidfd_, number) == 0)
    return true;
  throw io_error(
      "cannot send {} to process {}: {}", signal_name(number), id_.pid, system_message(errno));
}

void child_process::signal_group(int number) const {
  if (is_ours())
    ::kill(-id_.pid, number);
}

std::optional<process_end> child_process::wait(std::chrono::milliseconds at_most) {
  if (end_ || !pidfd_)
    return end_;
  pollfd ended{pidfd_.number(), POLLIN, 0};
  int answer;
  do {
    answer = ::poll(&ended, 1, int(at_most.count()));
  } while (answer < 0 && errno == EINTR);
  if (answer == 0)
    return std::nullopt;
  ::kill(-id_.pid, SIGKILL);
  siginfo_t how = {};
  while (::waitid(P_PID, id_t(id_.pid), &how, WEXITED) != 0)
    if (errno != EINTR)
      throw io_error("cannot wait for process {}: {}", id_.pid, system_message(errno));
  end_ = process_end_of(how);
  end_->out_of_memory = end_->signal == SIGKILL && out_of_memory_kills() > kills_before_;
  return end_;
}

process_end child_process::wait() {
  constexpr auto for_ever = std::chrono::milliseconds(-1);
  return *wait(for_ever);
}

void write_output_to(const std::filesystem::path& file) {
  const auto output = open_output(file);
  for (const int number : {STDOUT_FILENO, STDERR_FILENO})
    if (::dup2(output.number(), number) < 0)
      throw io_error(
          "cannot write this process's output to '{}': {}", file.string(), system_message(errno));
}

void child_process::leave() {
  pidfd_.close();
}

}  // namespace troupe::runtime
