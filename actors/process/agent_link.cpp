#include "actors/process/agent_link.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/process/orphaned_agents.hpp"

#include <algorithm>
#include <charconv>
#include <exception>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

namespace troupe::actors {
namespace {

constexpr auto listens_for = std::chrono::minutes(1);
constexpr std::string_view node_prefix = "node-";
constexpr int most_ended = 3;  ///< consecutive

struct listening {
  std::filesystem::path run;
  std::chrono::milliseconds patience;
  bool outlived;
  std::function<void(std::string answer, bool gone)> tell;
};

/// Passes on the agent's messages until the agent is gone, and with it its processes, unless they
/// outlive it.
void listen_to(runtime::agent_client& agent, const listening& x) {
  bool ended = false;
  try {
    for (;;)
      if (const auto answer = agent.next(listens_for)) {
        ended = ended || std::holds_alternative<runtime::agent_ended>(*answer);
        x.tell(runtime::text_of(*answer), false);
      }
  } catch (const std::exception& end) {
    // An agent that hung up may still run; two must not run at once.
    if ((x.outlived && !ended) || !agent.wait(x.patience))
      agent.kill(x.patience);
    const auto how = agent.wait(x.patience);
    if (!x.outlived && !ended)
      runtime::end_parts_of(x.run, x.patience);
    x.tell(how ? runtime::text_of(*how) : end.what(), true);
  }
}

std::chrono::milliseconds left_until(std::chrono::steady_clock::time_point x) {
  return std::max(
      std::chrono::milliseconds(0),
      std::chrono::ceil<std::chrono::milliseconds>(x - std::chrono::steady_clock::now()));
}

/// The processes that the agent knows; nothing when it does not answer in time or is ending.
std::optional<std::vector<runtime::known_process>> listed_by(
    runtime::agent_client& agent, std::chrono::steady_clock::time_point until) {
  try {
    agent.ask(runtime::list_processes{});
    for (;;) {
      const auto told = agent.next(left_until(until));
      if (!told || std::holds_alternative<runtime::request_refused>(*told))
        return std::nullopt;
      if (const auto* const all = std::get_if<runtime::processes_listed>(&*told))
        return all->processes;
    }
  } catch (const runtime::error&) {  // the agent hung up and may still run
    return std::nullopt;
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
                       listener tell,
                       bool outlived)
    : command_(std::move(command)),
      run_(std::move(run)),
      patience_(patience),
      tell_(std::move(tell)),
      outlived_(outlived) {}

agent_link::~agent_link() {
  leave_listener();
  if (!agent_)
    return;
  try {
    agent_->ask(runtime::end_agent{});
  } catch (const runtime::error&) {
    // The agent is gone. Processes that outlive it end without a leader.
  }
}

// The thread ends with its agent.
void agent_link::leave_listener() {
  if (listener_.joinable())
    listener_.detach();
}

void agent_link::start() {
  be_with(std::make_shared<runtime::agent_client>(runtime::agent_client::start(command_, run_)));
}

std::vector<runtime::known_process> agent_link::take_over() {
  const auto until = std::chrono::steady_clock::now() + patience_;
  try {
    auto agent = std::make_shared<runtime::agent_client>(runtime::agent_client::connect(run_));
    if (auto all = listed_by(*agent, until)) {
      be_with(std::move(agent));
      return *std::move(all);
    }
    // Two agents must not run at once; an ending agent gets time to finish.
    if (!agent->wait(left_until(until)))
      agent->kill(patience_);
  } catch (const runtime::error&) {  // no agent listens
  }
  start();
  return {};
}

void agent_link::be_with(std::shared_ptr<runtime::agent_client> agent) {
  // The thread holds the agent: the link may end before it.
  auto listener = runtime::start_thread(
      "agent",
      [agent,
       number = ++agents_,
       run = run_,
       patience = patience_,
       outlived = outlived_,
       tell = tell_] {
        listen_to(*agent, {run, patience, outlived, [&](std::string answer, bool gone) {
                             tell({.agent = number, .answer = std::move(answer), .gone = gone});
                           }});
      });
  leave_listener();
  listener_ = std::move(listener);
  agent_ = std::move(agent);
  ask_to_be_succeeded();
}

void agent_link::succeed(runtime::succession by) {
  succession_ = std::move(by);
  if (agent_)
    ask_to_be_succeeded();
}

void agent_link::ask_to_be_succeeded() {
  if (!succession_)
    return;
  try {
    agent_->succeed(0, *succession_);
  } catch (const runtime::io_error&) {  // reported as in `ask`
  }
}

// The listener reports an agent that is gone; the next agent starts what was asked for.
void agent_link::ask(const runtime::agent_request& what) {
  if (std::holds_alternative<runtime::end_agent>(what))
    succession_.reset();
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
  if (!x.gone) {
    ended_ = 0;
    return true;
  }
  agent_.reset();
  if (succession_)
    try {
      if (++ended_ > most_ended)
        throw runtime::io_error(
            "{} agents of this host in a row have ended; the last one: {}", ended_, x.answer);
      start();
    } catch (const runtime::error& failure) {
      runtime::log_warning(
          "this host has no agent, so no successor starts if this process fails: {}",
          failure.what());
    }
  return true;
}

void agent_link::kill() const {
  if (agent_)
    agent_->kill();
}

void agent_link::kill_everybody() const {
  runtime::kill_parts_of(run_);
}

}  // namespace troupe::actors
