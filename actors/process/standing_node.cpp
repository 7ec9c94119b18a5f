#include "actors/process/standing_node.hpp"

#include "actors/process/control_plane.hpp"
#include "actors/support/guard.hpp"
#include "actors/support/outside_sender.hpp"
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
standing_node_state::standing_node_state(messages::standing_node_actor::pointer self)
    : self_(self), path_(std::make_shared<message_path>()) {}

std::chrono::milliseconds standing_node_state::patience() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(settings_.suspicion));
}

void standing_node_state::start(standing_node_settings settings) {
  settings_ = std::move(settings);
  self_->set_down_handler([this](const caf::down_msg& x) { lose(x); });
  agent_
      = std::make_unique<agent_link>(settings_.agent,
                                     settings_.run,
                                     patience(),
                                     outside_sender(messages::standing_node_actor(self_), path_));
}

void standing_node_state::tell(messages::agent_told x) {
  x.host = job_->host;
  path_->send(self_, job_->launcher, std::move(x));
}

void standing_node_state::receive(const messages::start_node& x) {
  if (!is_from_launcher() || ending_)
    return;
  const auto name = agent_name_of(x.who.process);
  std::string failure;
  try {
    if (std::ranges::find(job_->places, x.who.process) == job_->places.end())
      runtime::log_info(" starts process {} of the run {}", x.who.process, job_->run);
    agent_->ask(runtime::start_process{
        .request = x.request,
        .name = name,
        .which = x.who.incarnation,
        .command = settings_.node({x.who.process, x.who.incarnation, job_->address, job_->port}),
        .environment = {},
        .output = runtime::run_folder::open(settings_.run).log_of(name)});
    starting_[name] = x.request;
    return;
  } catch (const runtime::error& of_agent) {
    failure = of_agent.what();
  }
  tell(runtime::agent_answer(runtime::request_refused{x.request, std::move(failure)}));
}

void standing_node_state::receive(const messages::kill_node& x) {
  if (!is_from_launcher() || !agent_->is_there())
    return;
  agent_->ask(
      runtime::signal_process{x.request, agent_name_of(x.who.process), x.who.incarnation, SIGKILL});
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
  if (self_->current_sender())
    return;
  const auto heard = agent_->hear(x);
  if (!job_)
    return;
  for (const auto& answer : heard.answers) {
    note(answer);
    tell(answer);
  }
  if (heard.lost) {
    starting_.clear();
    if (ending_)
      return be_free();
    tell(x);
  }
  tell_who_runs();
}

void standing_node_state::tell(const runtime::agent_answer& x) {
  tell(messages::agent_told{.answer = runtime::text_of(x)});
}

void standing_node_state::note(const runtime::agent_answer& x) {
  if (const auto* const started = std::get_if<runtime::process_started>(&x)) {
    starting_.erase(started->name);
  } else if (const auto* const refused = std::get_if<runtime::request_refused>(&x)) {
    std::erase_if(starting_, [&](const auto& one) { return one.second == refused->request; });
  }
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
  started([tell = outside_sender(node, std::make_shared<message_path>())] {
    tell(messages::shut_down{});
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
