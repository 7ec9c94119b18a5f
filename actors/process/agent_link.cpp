#include "actors/process/agent_link.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/process/host_parts.hpp"
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
/// Request numbers of the link's own adoptions: no owner uses them, and messages can hold them.
constexpr std::uint64_t first_adoption = std::uint64_t{1} << 62;

struct listening {
  std::chrono::milliseconds patience;
  std::function<void(std::string answer, bool gone)> tell;
};

/// Passes on the agent's messages until the agent is gone.
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
    if (!ended || !agent.wait(x.patience))
      agent.kill(x.patience);
    const auto how = agent.wait(x.patience);
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
                       listener tell)
    : command_(std::move(command)),
      run_(std::move(run)),
      patience_(patience),
      tell_(std::move(tell)) {}

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

std::vector<runtime::known_process> agent_link::take_over(
    const std::vector<runtime::process_started>& running) {
  const auto until = std::chrono::steady_clock::now() + patience_;
  std::vector<runtime::known_process> out;
  try {
    auto agent = std::make_shared<runtime::agent_client>(runtime::agent_client::connect(run_));
    if (auto all = listed_by(*agent, until)) {
      be_with(std::move(agent));
      out = *std::move(all);
    } else if (!agent->wait(left_until(until))) {
      // Two agents must not run at once; an ending agent got time to finish.
      agent->kill(patience_);
    }
  } catch (const runtime::error&) {  // no agent listens
  }
  if (!agent_)
    start();
  for (const auto& x : out)
    if (!x.ended && x.process != runtime::this_process())  // this one ends by itself
      running_[x.name] = {.name = x.name, .which = x.which, .process = x.process};
  for (const auto& x : running)
    if (!running_.contains(x.name)) {
      adopt(running_[x.name] = x, first_adoption + adoptions_++);
      std::erase_if(out, [&x](const auto& one) { return one.name == x.name; });
      out.push_back({.name = x.name, .which = x.which, .process = x.process, .ended = {}});
    }
  return out;
}

void agent_link::be_with(std::shared_ptr<runtime::agent_client> agent) {
  // The thread holds the agent: the link may end before it.
  auto listener = runtime::start_thread(
      "agent", [agent, number = ++agents_, patience = patience_, tell = tell_] {
        listen_to(*agent, {patience, [&](std::string answer, bool gone) {
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

void agent_link::ask(const runtime::agent_request& what) {
  if (!agent_)
    start();
  if (std::holds_alternative<runtime::end_agent>(what)) {
    succession_.reset();
    ends_ = true;
    asked_.clear();
  } else if (std::holds_alternative<runtime::start_process>(what)
             || std::holds_alternative<runtime::signal_process>(what)) {
    asked_.insert_or_assign(runtime::number_of(what), what);
  }
  send(what);
}

void agent_link::send(const runtime::agent_request& what) {
  try {
    agent_->ask(what);
  } catch (const runtime::io_error&) {  // the listener reports an agent that is gone
  }
}

agent_link::heard agent_link::hear(const messages::agent_told& x) {
  if (x.agent != agents_)
    return {};
  if (!x.gone) {
    ended_ = 0;
    return {.answers = note(runtime::read_answer(x.answer))};
  }
  agent_.reset();
  if (succession_ || !running_.empty() || !asked_.empty())
    try {
      replace(x.answer);
      return {};
    } catch (const runtime::error& failure) {
      runtime::log_warning("this host has no agent: {}", failure.what());
      agent_.reset();
      kill_everybody();
    }
  running_.clear();
  asked_.clear();
  adopted_.clear();
  ends_ = false;
  return {.lost = true};
}

std::vector<runtime::agent_answer> agent_link::note(runtime::agent_answer x) {
  if (const auto* const started = std::get_if<runtime::process_started>(&x)) {
    running_[started->name] = *started;
    adopted_.erase(started->request);
    asked_.erase(started->request);
    if (started->request >= first_adoption)
      return {};
  } else if (const auto* const died = std::get_if<runtime::process_died>(&x)) {
    running_.erase(died->name);
  } else if (const auto* const done = std::get_if<runtime::process_signalled>(&x)) {
    asked_.erase(done->request);
  } else if (const auto* const refused = std::get_if<runtime::request_refused>(&x)) {
    asked_.erase(refused->request);
    if (auto adopted = adopted_.extract(refused->request)) {
      const auto& it = adopted.mapped();
      runtime::kill_with_group(it.process);  // no agent would watch it
      running_.erase(it.name);
      std::vector<runtime::agent_answer> out;
      if (refused->request < first_adoption)
        out.emplace_back(it);
      out.emplace_back(runtime::process_died{.name = it.name,
                                             .which = it.which,
                                             .process = it.process,
                                             .how = {.exit_code = {}, .unseen = true}});
      return out;
    }
  }
  return {std::move(x)};
}

void agent_link::adopt(const runtime::process_started& x, std::uint64_t request) {
  adopted_[request] = x;
  adopted_[request].request = request;
  send(runtime::adopt_process{
      .request = request, .name = x.name, .which = x.which, .process = x.process});
}

void agent_link::replace(const std::string& why) {
  if (++ended_ > most_ended)
    throw runtime::io_error(
        "{} agents of this host in a row have ended; the last one: {}", ended_, why);
  runtime::log_warning("the host agent is gone ({}); another one takes its place", why);
  start();
  adopted_.clear();
  for (const auto& [name, x] : running_)
    adopt(x, first_adoption + adoptions_++);
  for (const auto& [number, x] : asked_)
    repeat(x);
  if (ends_)
    send(runtime::end_agent{});
}

// The agent may have started the process without telling it.
void agent_link::repeat(const runtime::agent_request& x) {
  const auto* const start = std::get_if<runtime::start_process>(&x);
  if (const auto line = start ? runtime::read_part_line(start->command) : std::nullopt)
    for (const auto& part : runtime::parts_of_host(run_))
      if (part.name == line->name && part.incarnation == line->incarnation)
        return adopt({.name = start->name, .which = start->which, .process = part.process},
                     start->request);
  send(x);
}

void agent_link::kill() const {
  if (agent_)
    agent_->kill();
}

void agent_link::kill_everybody() const {
  runtime::kill_parts_of(run_);
}

}  // namespace troupe::actors
