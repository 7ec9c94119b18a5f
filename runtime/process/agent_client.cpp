#include "runtime/process/agent_client.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/process/guard.hpp"
#include "runtime/process/host_agent.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/unix_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr int signs_in_silence = 5;

}  // namespace

/// Knows the process at the other end from the credentials that the kernel adds to each message.
class agent_client::line {
 public:
  explicit line(descriptor connection) : connection_(std::move(connection)) {
    const int yes = 1;
    ::setsockopt(connection_.number(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);
  }
  ~line() {
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
    }
    changed_.notify_all();
  }
  line(const line&) = delete;
  line& operator=(const line&) = delete;

  int number() const { return connection_.number(); }

  void send(const std::string& text) {
    const std::lock_guard one(sending_);
    for (std::size_t sent = 0; sent < text.size();) {
      const auto more
          = ::send(connection_.number(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (more < 0 && errno != EINTR)
        throw io_error("the host agent is gone: {}", system_message(errno));
      sent += more > 0 ? std::size_t(more) : 0;
    }
  }

  /// Same result as recv(2).
  ssize_t receive(char* to, std::size_t most) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
    iovec part{.iov_base = to, .iov_len = most};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const auto size = ::recvmsg(connection_.number(), &message, MSG_CMSG_CLOEXEC);
    for (auto* x = CMSG_FIRSTHDR(&message); size > 0 && x != nullptr; x = CMSG_NXTHDR(&message, x))
      if (x->cmsg_level == SOL_SOCKET && x->cmsg_type == SCM_CREDENTIALS) {
        ucred sender = {};
        std::memcpy(&sender, CMSG_DATA(x), sizeof sender);
        is_of(sender.pid);
      }
    return size;
  }

  void is_of(pid_t pid) {
    const std::lock_guard lock(mutex_);
    if (other_.pid == pid)
      return;
    if (const auto facts = look_at_process(pid))
      other_ = facts->id;
  }
  process_id other() const {
    const std::lock_guard lock(mutex_);
    return other_;
  }

  void give_signs(std::chrono::milliseconds every) {
    const std::lock_guard lock(mutex_);
    every_ = std::max(every, std::chrono::milliseconds(1));
    if (!thread_.joinable())
      thread_ = start_thread("signs of life", [this] { loop(); });
  }

 private:
  void loop() {
    const auto text = frame_of(text_of(agent_request(owner_still_there{})));
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, every_, [this] { return end_; })) {
      lock.unlock();
      // A message this short is sent whole or not at all. When the buffer is full, the agent has
      // enough heartbeats to read.
      bool gone = false;
      if (const std::unique_lock one(sending_, std::try_to_lock); one)
        gone = ::send(connection_.number(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT)
                   < 0
               && errno != EAGAIN && errno != EINTR;
      if (gone)
        return;
      lock.lock();
    }
  }

  const descriptor connection_;
  std::mutex sending_;
  mutable std::mutex mutex_;  ///< protects the members below
  std::condition_variable changed_;
  process_id other_;
  std::chrono::milliseconds every_{0};
  bool end_ = false;
  std::jthread thread_;
};

agent_client::agent_client(descriptor connection,
                           std::optional<child_process> agent,
                           std::filesystem::path run)
    : run_(std::move(run)),
      agent_(std::move(agent)),
      line_(std::make_unique<line>(std::move(connection))) {}

agent_client::agent_client(agent_client&&) noexcept = default;

agent_client agent_client::start(std::vector<std::string> command,
                                 const std::filesystem::path& run) {
  auto [ours, its] = socket_pair();
  command.emplace_back("3");
  child_process agent({.command = std::move(command),
                       .environment = {},
                       .output = run_folder::open(run).log_of(agent_name()),
                       .inherited = {its.number()}});
  return {std::move(ours), std::move(agent), run};
}

agent_client agent_client::connect(const std::filesystem::path& run) {
  agent_client out(connect_in(run_folder::open(run).sockets(), agent_name()), std::nullopt, run);
  ucred listener = {};
  socklen_t size = sizeof listener;
  if (::getsockopt(out.connection(), SOL_SOCKET, SO_PEERCRED, &listener, &size) == 0)
    out.line_->is_of(listener.pid);
  return out;
}

agent_client::~agent_client() {
  if (agent_)
    agent_->leave();
}

int agent_client::connection() const {
  return line_->number();
}

void agent_client::ask(const agent_request& what) {
  line_->send(frame_of(text_of(what)));
}

void agent_client::succeed(std::uint64_t request, const succession& by) {
  ask(succeed_owner{.request = request,
                    .command = by.command,
                    .environment = by.environment,
                    .output = by.output,
                    .process = this_process(),
                    .silence = std::chrono::duration<double>(by.silence).count()});
  line_->give_signs(by.silence / signs_in_silence);
}

std::optional<agent_answer> agent_client::next(std::chrono::milliseconds at_most) {
  const auto until = std::chrono::steady_clock::now() + at_most;
  for (;;) {
    if (const auto text = received_.next())
      return read_answer(*text);
    const auto left
        = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd waiting{line_->number(), POLLIN, 0};
    const int ready = ::poll(&waiting, 1, left.count() > 0 ? int(left.count()) : 0);
    if (ready == 0)
      return std::nullopt;
    if (ready < 0)
      continue;  // a signal
    std::array<char, 65536> bytes;
    const auto size = line_->receive(bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR)
      continue;
    if (size <= 0)
      throw io_error("the host agent is gone: {}",
                     size == 0 ? "its connection has ended" : system_message(errno));
    received_.feed({bytes.data(), std::size_t(size)});
  }
}

std::optional<process_end> agent_client::wait(std::chrono::milliseconds at_most) {
  if (agent_)
    return agent_->wait(at_most);
  const auto it = running_process::find(line_->other());
  if (it && !it->wait(at_most))
    return std::nullopt;
  return process_end{.exit_code = {}, .unseen = true};
}

std::optional<process_id> agent_client::agent() const {
  if (const auto known = line_->other(); known.pid != 0)
    return is_running(known) ? std::optional(known) : std::nullopt;
  // The agent has sent nothing yet: it is a fork of its guard, with the same command line.
  if (agent_)
    for (const auto& one : children_of(agent_->id().pid))
      if (command_of(one.id.pid) == command_of(agent_->id().pid))
        return one.id;
  return std::nullopt;
}

bool agent_client::kill(std::chrono::milliseconds at_most) const {
  const auto it = agent();
  const auto agent = it ? running_process::find(*it) : std::nullopt;
  if (!agent)
    return true;
  agent->signal(SIGKILL);
  return agent->wait(at_most);
}

void agent_client::kill_everybody() const {
  const auto it = agent();
  auto guard = this->guard();
  if (const auto facts = it ? look_at_process(it->pid) : std::nullopt; facts && !guard)
    if (const auto above = look_at_process(facts->parent); above && is_guard(above->id.pid))
      guard = above->id;
  if (guard)
    kill_part(*guard);
  if (it)  // an agent without a guard
    kill_part(*it);
}

std::optional<process_id> agent_client::guard() const {
  return agent_ ? std::optional(agent_->id()) : std::nullopt;
}

}  // namespace troupe::runtime
