#include "actors/process/agent_link.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/thread.hpp"

#include <charconv>
#include <exception>
#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace troupe::actors {
namespace {

constexpr auto listens_for = std::chrono::minutes(1);
constexpr std::string_view node_prefix = "node-";

/// Until the agent is gone, and its guard with it, which kills whom the agent has started.
void listen_to(runtime::agent_client& agent,
               std::chrono::milliseconds patience,
               const std::function<void(std::string answer, bool gone)>& tell) {
  try {
    for (;;)
      if (const auto answer = agent.next(listens_for))
        tell(runtime::text_of(*answer), false);
  } catch (const std::exception& end) {
    if (!agent.wait(patience)) {
      agent.kill();
      agent.wait(patience);
    }
    tell(end.what(), true);
  }
}

}  // namespace

std::string agent_name_of(int process) {
  return fmt::format("{}{}", node_prefix, process);
}

int process_of(std::string_view agents_name) {
  int out = -1;
  if (agents_name.starts_with(node_prefix)) {
    agents_name.remove_prefix(node_prefix.size());
    std::from_chars(agents_name.data(), agents_name.data() + agents_name.size(), out);
  }
  return out;
}

agent_link::agent_link(std::vector<std::string> command,
                       std::filesystem::path run,
                       std::chrono::milliseconds patience,
                       listener tell)
    : command_(std::move(command)),
      run_(std::move(run)),
      patience_(patience),
      tell_(std::move(tell)) {}

agent_link::~agent_link() {
  if (!agent_)
    return;
  try {
    agent_->ask(runtime::end_agent{});
  } catch (const runtime::error&) {
    // It is gone, and they are, too.
  }
  listener_.detach();  // it ends with the agent
}

void agent_link::start() {
  agent_ = std::make_shared<runtime::agent_client>(runtime::agent_client::start(command_, run_));
  // The thread ends with its agent, which it alone knows then: the link may have ended before.
  auto listener = runtime::start_thread(
      "agent", [agent = agent_, number = ++agents_, patience = patience_, tell = tell_] {
        listen_to(*agent, patience, [&](std::string answer, bool gone) {
          tell({.agent = number, .answer = std::move(answer), .gone = gone});
        });
      });
  listener_ = std::move(listener);
}

// An agent that is gone says so by its listener, and whoever was asked for is started by the next.
void agent_link::ask(const runtime::agent_request& what) {
  if (!agent_)
    start();
  try {
    agent_->ask(what);
  } catch (const runtime::io_error&) {
  }
}

bool agent_link::hear(const messages::agent_told& x) {
  if (x.agent != agents_)
    return false;
  if (x.gone)
    agent_.reset();
  return true;
}

void agent_link::kill() const {
  if (agent_)
    agent_->kill();
}

}  // namespace troupe::actors
