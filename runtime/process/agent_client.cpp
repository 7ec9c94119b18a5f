#include "runtime/process/agent_client.hpp"

#include "runtime/core/error.hpp"
#include "runtime/process/host_agent.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/unix_socket.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

namespace troupe::runtime {

agent_client agent_client::start(std::vector<std::string> command,
                                 const std::filesystem::path& run) {
  auto [ours, its] = socket_pair();
  command.emplace_back("3");
  child_process agent({.command = std::move(command),
                       .environment = {},
                       .output = run_folder::open(run).log_of(agent_name()),
                       .inherited = {its.number()}});
  return {std::move(ours), std::move(agent)};
}

agent_client agent_client::connect(const std::filesystem::path& run) {
  return {connect_in(run_folder::open(run).sockets(), agent_name()), std::nullopt};
}

agent_client::~agent_client() {
  if (agent_)
    agent_->leave();
}

void agent_client::ask(const agent_request& what) {
  const auto text = frame_of(text_of(what));
  for (std::size_t sent = 0; sent < text.size();) {
    const auto more
        = ::send(connection_.number(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (more < 0 && errno != EINTR)
      throw io_error("the host agent is gone: {}", system_message(errno));
    sent += more > 0 ? std::size_t(more) : 0;
  }
}

std::optional<agent_answer> agent_client::next(std::chrono::milliseconds at_most) {
  const auto until = std::chrono::steady_clock::now() + at_most;
  for (;;) {
    if (const auto text = received_.next())
      return read_answer(*text);
    const auto left
        = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd waiting{connection_.number(), POLLIN, 0};
    const int ready = ::poll(&waiting, 1, left.count() > 0 ? int(left.count()) : 0);
    if (ready == 0)
      return std::nullopt;
    if (ready < 0)
      continue;  // a signal
    std::array<char, 65536> bytes;
    const auto size = ::recv(connection_.number(), bytes.data(), bytes.size(), 0);
    if (size < 0 && errno == EINTR)
      continue;
    if (size <= 0)
      throw io_error("the host agent is gone: {}",
                     size == 0 ? "its connection has ended" : system_message(errno));
    received_.feed({bytes.data(), std::size_t(size)});
  }
}

std::optional<process_end> agent_client::wait(std::chrono::milliseconds at_most) {
  return agent_ ? agent_->wait(at_most) : std::nullopt;
}

void agent_client::kill() const {
  if (!agent_)
    return;
  // The guard sees its child's end, and kills whom that has started.
  for (const auto& one : children_of(agent_->id().pid))
    if (const auto agent = running_process::find(one.id))
      agent->signal(SIGKILL);
}

std::optional<process_id> agent_client::guard() const {
  return agent_ ? std::optional(agent_->id()) : std::nullopt;
}

}  // namespace troupe::runtime
