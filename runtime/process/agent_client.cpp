#include "runtime/process/agent_client.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/process/host_agent.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/unix_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr int signs_in_silence = 5;

}  // namespace

class agent_client::line {
 public:
  explicit line(descriptor connection) : connection_(std::move(connection)) {}
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
  std::mutex mutex_;  ///< protects the members below
  std::condition_variable changed_;
  std::chrono::milliseconds every_{0};
  bool end_ = false;
  std::jthread thread_;
};

agent_client::agent_client(descriptor connection,
                           std::optional<child_process> agent,
                           process_id other)
    : agent_(std::move(agent)),
      other_(other),
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
  const auto id = agent.id();
  return {std::move(ours), std::move(agent), id};
}

agent_client agent_client::connect(const std::filesystem::path& run) {
  auto connection = connect_in(run_folder::open(run).sockets(), agent_name());
  ucred listener = {};
  socklen_t size = sizeof listener;
  ::getsockopt(connection.number(), SOL_SOCKET, SO_PEERCRED, &listener, &size);
  const auto facts = look_at_process(listener.pid);
  return {std::move(connection), std::nullopt, facts ? facts->id : process_id()};
}

agent_client::~agent_client() {
  if (agent_)
    agent_->leave();
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
    const auto size = ::recv(line_->number(), bytes.data(), bytes.size(), 0);
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
  const auto it = running_process::find(other_);
  if (it && !it->wait(at_most))
    return std::nullopt;
  return process_end{.exit_code = {}, .unseen = true};
}

std::optional<process_id> agent_client::agent() const {
  return is_running(other_) ? std::optional(other_) : std::nullopt;
}

bool agent_client::kill(std::chrono::milliseconds at_most) const {
  const auto agent = running_process::find(other_);
  if (!agent)
    return true;
  agent->signal(SIGKILL);
  return agent->wait(at_most);
}

}  // namespace troupe::runtime
