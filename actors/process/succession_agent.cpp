#include "actors/process/succession_agent.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/run_folder.hpp"

#include <caf/actor_cast.hpp>

#include <utility>
#include <variant>

namespace troupe::actors {
namespace {

constexpr int most_failures = 3;  ///< consecutive

}  // namespace

succession_agent::succession_agent(messages::launcher_actor::pointer self,
                                   const std::shared_ptr<const message_path>& path,
                                   const launch_settings& settings,
                                   std::chrono::milliseconds silence)
    : agent_(
        settings.agent,
        settings.run,
        silence,
        [me = caf::actor_cast<caf::weak_actor_ptr>(self->ctrl()), path](messages::agent_told x) {
          x.host = host;
          if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(me))
            path->send_from_outside(caf::actor_cast<messages::launcher_actor>(alive), std::move(x));
        },
        settings.outlived) {
  if (settings.incarnation > 1)
    agent_.take_over();
  else
    agent_.start();
  agent_.succeed({.command = settings.successor,
                  .output = runtime::run_folder::open(settings.run).log_of(runtime::successor_name),
                  .silence = silence});
}

bool succession_agent::hear(const messages::agent_told& x) {
  if (!agent_.hear(x))
    return false;
  if (!x.gone) {
    failures_ = 0;
    return std::holds_alternative<runtime::request_refused>(runtime::read_answer(x.answer));
  }
  if (is_ending_)
    return false;
  if (++failures_ > most_failures) {
    runtime::log_warning(
        "if this process fails, no successor will start: {} agents of this host in a row have "
        "ended; the last one: {}",
        failures_,
        x.answer);
    return false;
  }
  runtime::log_warning("the host agent is gone ({}); another one takes its place", x.answer);
  try {
    agent_.start();
  } catch (const runtime::error& failure) {
    runtime::log_warning("if this process fails, no successor will start: {}", failure.what());
  }
  return false;
}

bool succession_agent::end() {
  if (!agent_.is_there())
    return true;
  if (std::exchange(is_ending_, true))
    agent_.kill();
  else
    agent_.ask(runtime::end_agent{});
  return false;
}

}  // namespace troupe::actors
