#include "actors/process/standing_node.hpp"

#include "actors/process/control_plane.hpp"
#include "actors/support/guard.hpp"
#include "messages/core/error.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/job/build.hpp"
#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {
namespace {

/// Request number for the node's own requests to its agent; no launcher uses it.
constexpr std::uint64_t adoption = 0;

}  // namespace

standing_node_state::standing_node_state(messages::standing_node_actor::pointer self)
    : self_(self), path_(std::make_shared<message_path>()) {}

std::chrono::milliseconds standing_node_state::patience() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(settings_.suspicion));
}

void standing_node_state::start(standing_node_settings settings) {
  settings_ = std::move(settings);
  self_->set_down_handler([this](const caf::down_msg& x) { lose(x); });
  agent_ = std::make_unique<agent_link>(
      settings_.agent,
      settings_.run,
      patience(),
      [me = caf::actor_cast<caf::weak_actor_ptr>(self_->ctrl()),
       path = path_](messages::agent_told x) {
        if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(me))
          path->send_from_outside(caf::actor_cast<messages::standing_node_actor>(alive),
                                  std::move(x));
      },
      settings_.outlived);
}

void standing_node_state::tell(messages::agent_told x) {
  x.host = job_->host;
  path_->send(self_, job_->launcher, std::move(x));
}

void standing_node_state::receive(const messages::start_node& x) {
  if (!is_from_launcher() || ending_)
    return;
  const auto name = agent_name_of(x.who.process);
  starting_[name] = x;
  if (is_being_killed(name))
    behind_.insert(name);
  else
    ask_to_start(name);
}

bool standing_node_state::is_being_killed(const std::string& name) const {
  const auto runs = running_.find(name);
  const auto killed = killed_.find(name);
  return runs != running_.end() && killed != killed_.end()
         && killed->second.which == runs->second.it.which;
}

void standing_node_state::ask_to_start(const std::string& name) {
  const auto x = starting_.at(name);
  std::string failure;
  try {
    if (std::ranges::find(job_->places, x.who.process) == job_->places.end())
      runtime::log_info(" starts process {} of the run {}", x.who.process, job_->run);
    agent_->ask(runtime::start_process{
        .request = x.request,
        .name = name,
        .command = settings_.node({x.who.process, x.who.incarnation, job_->address, job_->port}),
        .environment = {},
        .output = runtime::run_folder::open(settings_.run).log_of(name)});
    return;
  } catch (const runtime::error& of_agent) {
    failure = of_agent.what();
  }
  starting_.erase(name);
  tell(runtime::agent_answer(runtime::request_refused{x.request, std::move(failure)}));
}

// A launcher that takes over kills older incarnations and starts the next ones at once.
void standing_node_state::start_those_behind() {
  if (ending_)
    return;
  for (const auto& name : std::exchange(behind_, {}))
    if (is_being_killed(name))
      behind_.insert(name);
    else
      ask_to_start(name);
}

void standing_node_state::receive(const messages::kill_node& x) {
  if (!is_from_launcher() || !agent_->is_there())
    return;
  const runtime::signal_process what{x.request, agent_name_of(x.process), x.which, SIGKILL};
  killed_[what.name] = what;
  agent_->ask(what);
}

void standing_node_state::receive(const messages::kill_agent&) {
  if (is_from_launcher())
    agent_->kill();
}

void standing_node_state::receive(const messages::dismiss& x) {
  const auto& sender = self_->current_sender();
  if (is_from_launcher())
    end_job();
  else if (next_ && sender && sender->address() == next_->launcher.address()) {
    path_->send(
        self_,
        next_->launcher,
        messages::agent_told{.host = next_->host, .answer = "it was not served", .gone = true});
    turn_next_away("it is no longer needed");
  } else if (ending_ && x.job == jobs_)
    agent_->kill_everybody();
}

void standing_node_state::receive(const messages::agent_told& x) {
  if (self_->current_sender() || !agent_->hear(x) || !job_)
    return;
  if (!x.gone) {
    if (note(runtime::read_answer(x.answer)))
      tell(x);
    start_those_behind();
    return tell_who_runs();
  }
  std::erase_if(starting_, [this](const auto& one) { return !behind_.contains(one.first); });
  if (adopt_again())
    return tell_who_runs();
  starting_.clear();
  behind_.clear();
  if (ending_)
    return be_free();
  tell(x);
  tell_who_runs();
}

void standing_node_state::tell(const runtime::agent_answer& x) {
  tell(messages::agent_told{.answer = runtime::text_of(x)});
}

// The next agent's answers to this node's own adopt requests concern the launcher only when a
// process has ended.
bool standing_node_state::note(const runtime::agent_answer& x) {
  if (const auto* const started = std::get_if<runtime::process_started>(&x)) {
    const bool anew = started->request != adoption;
    if (anew)
      killed_.erase(started->name);
    auto& it = running_[started->name];
    it.it = *started;
    if (const auto asked = starting_.find(started->name); anew && asked != starting_.end()) {
      it.who = asked->second.who;
      starting_.erase(asked);
    }
    return anew;
  }
  if (const auto* const died = std::get_if<runtime::process_died>(&x))
    running_.erase(died->name);
  const auto* const refused = std::get_if<runtime::request_refused>(&x);
  if (refused == nullptr)
    return true;
  if (refused->request != adoption) {
    std::erase_if(starting_,
                  [&](const auto& one) { return one.second.request == refused->request; });
    return true;
  }
  std::erase_if(running_, [this](const auto& one) {
    const auto& it = one.second.it;
    if (runtime::is_running(it.process))
      return false;
    tell(runtime::agent_answer(runtime::process_died{.name = it.name,
                                                     .which = it.which,
                                                     .process = it.process,
                                                     .how = {.exit_code = {}, .unseen = true}}));
    return true;
  });
  return false;
}

/// Returns false when no process is left to adopt, or no agent starts.
bool standing_node_state::adopt_again() {
  if (!settings_.outlived || running_.empty())
    return false;
  const auto all = running_;
  runtime::log_warning("the host agent is gone; another one adopts its processes");
  try {
    for (const auto& [name, x] : all)
      agent_->ask(runtime::adopt_process{adoption, name, x.it.which, x.it.process});
  } catch (const runtime::error& failure) {
    runtime::log_error("{}", failure.what());
    running_.clear();
    return false;
  }
  for (const auto& [name, what] : killed_)
    if (all.contains(name))
      agent_->ask(what);
  if (ending_)
    agent_->ask(runtime::end_agent{});
  return true;
}

void standing_node_state::receive(const messages::shut_down& x) {
  if (std::exchange(over_, true))
    agent_->kill_everybody();
  if (!job_)
    return self_->quit();
  path_->send_later(self_, messages::standing_node_actor(self_), patience(), x);
  end_job();
}

messages::standing_node_actor::behavior_type standing_node(
    messages::standing_node_actor::stateful_pointer<standing_node_state> self,
    standing_node_settings settings) {
  end_on_exception(self, "standing node");
  self->state.start(std::move(settings));
  return {[self](const messages::serve& x) { return self->state.receive(x); },
          [self](const messages::start_node& x) { self->state.receive(x); },
          [self](const messages::kill_node& x) { self->state.receive(x); },
          [self](const messages::kill_agent& x) { self->state.receive(x); },
          [self](const messages::dismiss& x) { self->state.receive(x); },
          [self](const messages::agent_told& x) { self->state.receive(x); },
          [self](const messages::hold_is_over& x) { self->state.receive(x); },
          [self](const messages::keep_run& x) { self->state.receive(x); },
          [self](const messages::keep_ledger& x) { return self->state.receive(x); },
          [self](const messages::succeed_here& x) { self->state.receive(x); },
          [self](const messages::successor_ended& x) { self->state.receive(x); },
          [self](const messages::shut_down& x) { self->state.receive(x); }};
}

int run_standing_node(const standing_node_settings& settings,
                      const std::function<void(const std::function<void()>& end)>& started) {
  constexpr int failed = 3;
  const auto config
      = make_configuration(0,  // no spare threads: hung actors are not replaced here
                           control_settings{runtime::run_folder::open(settings.run).credentials(),
                                            settings.suspicion,
                                            settings.insecure});
  caf::actor_system system(*config);
  auto self = std::make_optional<caf::scoped_actor>(system);
  auto node = system.spawn(standing_node, settings);
  (*self)->monitor(node);
  const auto port = publish(node, settings.address, settings.port);
  runtime::log_info(
      "{}{}:{}, {}", node_listens_at, settings.address, port, runtime::version_text());
  started([weak = caf::actor_cast<caf::weak_actor_ptr>(node)] {
    if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(weak))
      message_path().send_from_outside(caf::actor_cast<messages::standing_node_actor>(alive),
                                       messages::shut_down{});
  });
  int code = 0;
  (*self)->receive([&](const caf::down_msg& x) {
    if (x.reason && x.reason != caf::exit_reason::user_shutdown) {
      runtime::log_error("{}", messages::text_of(x.reason));
      code = failed;
    }
  });
  unpublish(node);
  self.reset();
  node = nullptr;
  return code;
}

}  // namespace troupe::actors
