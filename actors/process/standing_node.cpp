#include "actors/process/standing_node.hpp"

#include "actors/process/control_plane.hpp"
#include "actors/support/fault_injector.hpp"
#include "actors/support/guard.hpp"
#include "messages/core/error.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/trainer/build.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include <chrono>
#include <csignal>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {
namespace {

/// The number of what a standing node asks of its agent by itself: no launcher's.
constexpr std::uint64_t adoption = 0;

std::chrono::milliseconds patience_of(const standing_node_settings& x) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(x.suspicion));
}

/// A job's faults are planted in its own processes.
std::shared_ptr<const message_path> undisturbed() {
  return std::make_shared<message_path>(
      std::make_shared<fault_injector>(runtime::fault_settings{}));
}

}  // namespace

standing_node_state::standing_node_state(messages::standing_node_actor::pointer self)
    : self_(self), path_(undisturbed()) {}

void standing_node_state::start(standing_node_settings settings) {
  settings_ = std::move(settings);
  self_->set_down_handler([this](const caf::down_msg& x) { lose(x); });
  agent_ = std::make_unique<agent_link>(
      settings_.agent,
      settings_.run,
      patience_of(settings_),
      [me = caf::actor_cast<caf::weak_actor_ptr>(self_->ctrl()),
       path = path_](messages::agent_told x) {
        if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(me))
          path->send_from_outside(caf::actor_cast<messages::standing_node_actor>(alive),
                                  std::move(x));
      },
      settings_.outlived);
}

std::string standing_node_state::refusal_of(const messages::serve& x) const {
  if (x.protocol != messages::process_protocol || x.program != runtime::version_text())
    return fmt::format(
        "its program is '{}' (protocol {}), and this run is of '{}' (protocol {}); give every host "
        "the same build",
        runtime::version_text(),
        messages::process_protocol,
        x.program,
        x.protocol);
  if (x.suspicion != settings_.suspicion)
    return fmt::format(
        "it was started with `recovery.suspicion` {}, and this run has {}; give both the same",
        settings_.suspicion,
        x.suspicion);
  if (over_)
    return "it is ending";
  if (next_ || (job_ && !ending_))
    return fmt::format(
        "it {} {}, and serves one at a time; start another node for it",
        job_->process >= 0 ? fmt::format("serves process {} of", job_->process) : "is a spare of",
        job_->run == x.run ? "this run, too: it was named twice" : "another run");
  return {};
}

// Who comes while the job before is being ended has to wait for that alone.
caf::result<messages::serving> standing_node_state::receive(const messages::serve& x) {
  if (auto why = refusal_of(x); !why.empty()) {
    runtime::log_warning("a run was refused: {}", why);
    return messages::make_error(messages::ec::refused, std::move(why));
  }
  if (!job_)
    return serve(x);
  next_ = x;
  answer_ = self_->make_response_promise<messages::serving>();
  return answer_;
}

messages::serving standing_node_state::serve(const messages::serve& x) {
  job_ = x;
  ++jobs_;
  ending_ = false;
  self_->monitor(x.launcher);
  if (x.process >= 0)
    runtime::log_info(" serves process {} of the run {}", x.process, x.run);
  else
    runtime::log_info(" stands by as a spare of the run {}", x.run);
  return {.host = runtime::host_name(), .run = settings_.run.string()};
}

bool standing_node_state::is_from_launcher() const {
  const auto& sender = self_->current_sender();
  return job_ && sender && sender->address() == job_->launcher.address();
}

void standing_node_state::tell(messages::agent_told x) {
  x.host = job_->host;
  path_->send(self_, job_->launcher, std::move(x));
}

void standing_node_state::receive(const messages::start_node& x) {
  if (!is_from_launcher() || ending_)
    return;
  std::string failure;
  try {
    const auto name = agent_name_of(x.who.process);
    if (x.who.process != job_->process)
      runtime::log_info(" starts process {} of the run {}", x.who.process, job_->run);
    return agent_->ask(runtime::start_process{
        .request = x.request,
        .name = name,
        .command = settings_.node({x.who.process, x.who.incarnation, x.address, x.port}),
        .environment = {},
        .output = runtime::run_folder::open(settings_.run).log_of(name)});
  } catch (const runtime::error& of_agent) {
    failure = of_agent.what();
  }
  tell({.answer = runtime::text_of(
            runtime::agent_answer(runtime::request_refused{x.request, std::move(failure)}))});
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
  if (is_from_launcher())
    end_job();
  else if (ending_ && x.job == jobs_)
    agent_->kill_everybody();
}

// Nobody else could give orders for it, and the next one waits.
void standing_node_state::lose(const caf::down_msg& x) {
  if (!job_ || job_->launcher.address() != x.source || ending_)
    return;
  runtime::log_warning("the launcher of the run {} is gone", job_->run);
  end_job();
}

void standing_node_state::end_job() {
  if (std::exchange(ending_, true))
    return;
  if (!agent_->is_there())
    return be_free();
  agent_->ask(runtime::end_agent{});
  path_->send_later(self_,
                    messages::standing_node_actor(self_),
                    patience_of(settings_),
                    messages::dismiss{jobs_});
}

void standing_node_state::receive(const messages::agent_told& x) {
  if (self_->current_sender() || !agent_->hear(x) || !job_)
    return;
  if (!x.gone) {
    if (note(runtime::read_answer(x.answer)))
      tell(x);
    return;
  }
  if (adopt_again())
    return;
  if (ending_)
    return be_free();
  tell(x);
}

void standing_node_state::tell(const runtime::agent_answer& x) {
  tell(messages::agent_told{.answer = runtime::text_of(x)});
}

// What the next agent says of those that it was to adopt, by this node's own request, is news to
// the launcher only where one of them has ended.
bool standing_node_state::note(const runtime::agent_answer& x) {
  if (const auto* const started = std::get_if<runtime::process_started>(&x)) {
    const bool anew = started->request != adoption;
    if (anew)
      killed_.erase(started->name);
    running_[started->name] = *started;
    return anew;
  }
  if (const auto* const died = std::get_if<runtime::process_died>(&x))
    running_.erase(died->name);
  const auto* const refused = std::get_if<runtime::request_refused>(&x);
  if (refused == nullptr || refused->request != adoption)
    return true;
  std::erase_if(running_, [this](const auto& one) {
    const auto& it = one.second;
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

/// False: nobody runs whom the next agent could adopt, or there is none.
bool standing_node_state::adopt_again() {
  if (!settings_.outlived || running_.empty())
    return false;
  const auto all = running_;
  runtime::log_warning("the host agent is gone; another one adopts whom it has started");
  try {
    for (const auto& [name, it] : all)
      agent_->ask(runtime::adopt_process{adoption, name, it.which, it.process});
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

// The launcher waits for this word, and may start its next run after it.
void standing_node_state::be_free() {
  const auto before = std::exchange(job_, std::nullopt);
  running_.clear();
  killed_.clear();
  ending_ = false;
  self_->demonitor(before->launcher.address());
  path_->send(self_,
              before->launcher,
              messages::agent_told{.host = before->host, .answer = "it has ended", .gone = true});
  runtime::log_info(" the run {} is over here", before->run);
  if (over_ || settings_.once)
    return self_->quit();
  if (const auto next = std::exchange(next_, std::nullopt))
    answer_.deliver(serve(*next));
}

void standing_node_state::receive(const messages::shut_down& x) {
  if (std::exchange(over_, true))
    agent_->kill_everybody();
  if (!job_)
    return self_->quit();
  path_->send_later(self_, messages::standing_node_actor(self_), patience_of(settings_), x);
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
          [self](const messages::shut_down& x) { self->state.receive(x); }};
}

int run_standing_node(const standing_node_settings& settings,
                      const std::function<void(const std::function<void()>& end)>& started) {
  constexpr int failed = 3;
  const auto config
      = make_configuration(0,  // nobody who hangs here is replaced
                           control_settings{runtime::run_folder::open(settings.run).credentials(),
                                            settings.suspicion,
                                            settings.insecure});
  caf::actor_system system(*config);
  auto self = std::make_optional<caf::scoped_actor>(system);
  auto node = system.spawn(standing_node, settings);
  (*self)->monitor(node);
  const auto port = publish(node, settings.address, settings.port);
  runtime::log_info(
      " waits for jobs at {}:{}, {}", settings.address, port, runtime::version_text());
  started([weak = caf::actor_cast<caf::weak_actor_ptr>(node)] {
    if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(weak))
      undisturbed()->send_from_outside(caf::actor_cast<messages::standing_node_actor>(alive),
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
